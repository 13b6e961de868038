"""An application's file: what it declares, and all that is wrong with it at once, with lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from weftos.config.app_file import App, read_app
from weftos.config.config import load
from weftos.config.config_file import ConfigError

SHOP = """\
[app]
name = "shop"
strategy = "rest_for_one"
to = "back/packer-1"

[[app.children]]
name = "clerk"
behaviour = "clerk"
tools = ["weigh"]
workspace = "papers"
shutdown_s = "infinity"

[[app.supervisors]]
name = "back"
intensity = [3, 5]

[[app.supervisors.children]]
name = "packer"
replicas = 3

[[app.tools]]
name = "weigh"
import = "scales:weigh"
env = ["SCALE_KEY"]

[[app.behaviours]]
name = "clerk"
import = "clerks:Clerk"
python_path = ["src"]
isolation = "shared"
"""


def read(place: Path, text: str) -> App:
    file = place / "app.toml"
    file.write_text(text)
    return read_app(file)


def faults(place: Path, text: str) -> list[str]:
    with pytest.raises(ConfigError) as error:
        read(place, text)
    start = f"{place / 'app.toml'}:"
    assert all(fault.startswith(start) for fault in error.value.faults)
    return [fault.removeprefix(start) for fault in error.value.faults]


def test_a_file_is_its_spawns_parents_first_and_its_code(tmp_path: Path) -> None:
    app = read(tmp_path, SHOP)
    assert [(each.address, each.supervisor, each.replicas) for each in app.declaration.spawns] == [
        ("/user/shop", True, None),
        ("/user/shop/clerk", False, None),
        ("/user/shop/back", True, None),
        ("/user/shop/back/packer", False, 3),
    ]
    root, clerk, back, _ = app.declaration.spawns
    assert root.strategy == "rest_for_one" and back.intensity == (3, 5.0) and clerk.shutdown_s == "infinity"
    assert clerk.workspace == str(tmp_path / "papers") and clerk.tools == ("weigh",)
    assert app.to == "/user/shop/back/packer-1" and app.lines == (2, 7, 14, 18)
    assert [(one.kind, one.name, one.import_string, one.python_path) for one in app.declaration.code] == [
        ("tool", "weigh", "scales:weigh", (str(tmp_path),)),
        ("behaviour", "clerk", "clerks:Clerk", (str(tmp_path / "src"),)),
    ]


def test_its_own_code_joins_the_configuration_of_a_node(tmp_path: Path) -> None:
    read(tmp_path, SHOP)
    (tmp_path / "weftos.toml").write_text('[tools.other]\nimport = "others:other"\n')
    config = load(tmp_path, apps=[tmp_path / "app.toml"])
    assert set(config.settings.tools) == {"other", "weigh"} and set(config.settings.behaviours) == {"clerk"}
    assert config.settings.tools["weigh"].python_path == [str(tmp_path)]
    assert str(config.origins["tools.weigh.import"]) == f"{tmp_path / 'app.toml'}:21"
    given = config.tool_variables({"SCALE_KEY": "k", "OTHER": "x"})
    assert given == {"other": {}, "weigh": {"SCALE_KEY": "k"}}


def test_it_takes_the_name_of_no_other_tool(tmp_path: Path) -> None:
    read(tmp_path, SHOP)
    (tmp_path / "weftos.toml").write_text('[tools.weigh]\nimport = "others:weigh"\n')
    with pytest.raises(ConfigError, match=r"tools.weigh is another one in .*weftos.toml:2"):
        load(tmp_path, apps=[tmp_path / "app.toml"])
    (tmp_path / "weftos.toml").write_text(
        f'[tools.weigh]\nimport = "scales:weigh"\npython_path = ["{tmp_path}"]\nenv = ["SCALE_KEY"]\n'
    )
    assert load(tmp_path, apps=[tmp_path / "app.toml"]).settings.tools["weigh"].import_ == "scales:weigh"


def test_no_tool_is_given_the_key_of_a_provider(tmp_path: Path) -> None:
    read(tmp_path, SHOP)
    (tmp_path / "weftos.toml").write_text(
        '[providers.p]\nkind = "openai"\nbase_url = "http://127.0.0.1:1"\napi_key_env = "SCALE_KEY"\n'
    )
    with pytest.raises(ConfigError, match=r"weigh\.env names SCALE_KEY, which holds the key of provider p"):
        load(tmp_path, apps=[tmp_path / "app.toml"])


def test_a_path_that_no_system_takes_is_a_fault_with_its_line(tmp_path: Path) -> None:
    wrong = SHOP.replace('["src"]', '["s\\u0000rc"]')
    assert faults(tmp_path, wrong) == ["29: python_path: no directory has a NUL in its name"]


WRONG = """\
[app]
name = "shop"
color = "red"
tools = [1]
[[app.children]]
name = "clerk"
restrat = "permanent"
under = "/user"
restart = "always"
replicas = -1
[[app.children]]
name = "clerk"
shutdown_s = "soon"
tools = "weigh"
[[app.children]]
behaviour = "agent"
[[app.children]]
name = "17"
[[app.supervisors]]
name = "back"
model = "m"
auto_shutdown = "never"
child_restart = "transient"
system_prompt = "x"
replicas = 2
[[app.supervisors.children]]
name = "late"
shutdown_s = inf
significant = 1979-05-27
[[app.behaviours]]
name = "own thing"
import = "clerks"
env = ["KEY"]
[[app.behaviours]]
name = "fine"
[other]
"""


def test_every_fault_is_told_at_once_with_its_line(tmp_path: Path) -> None:
    found = faults(tmp_path, WRONG)
    for words in (
        "3: unknown key color",
        "4: tools: each must be a table, headed [[app.tools]]",
        "7: unknown key restrat; did you mean restart?",
        "8: unknown key under: where the entry stands says that",
        "9: restart: Input should be 'permanent', 'transient' or 'temporary' (it is 'always')",
        "10: replicas: Input should be greater than or equal to 0 (it is -1)",
        "12: name: clerk is that of line 6 too",
        "13: shutdown_s: Input should be a valid number or: Input should be 'infinity' (it is 'soon')",
        "14: tools: Input should be a valid array (it is 'weigh')",
        "15: name: missing, and it is needed",
        "18: name '17' is all digits",
        "21: model: a supervisor runs no behaviour: leave it out",
        "23: child_restart: only strategy simple_one_for_one has it: leave it out",
        "24: system_prompt: a supervisor runs no behaviour: leave it out",
        "25: unknown key replicas",
        "28: shutdown_s: neither text, number, truth value nor list of these",
        "29: significant: neither text",
        "31: name: a name is 1 to 64 letters",
        "33: env: a behaviour runs in a cell, which is given no secrets",
        "34: import: missing, and it is needed",
        "36: unknown key other; known here: app",
    ):
        assert any(fault.startswith(words) for fault in found), (words, found)
    assert [int(fault.split(":")[0]) for fault in found] == sorted(
        int(fault.split(":")[0]) for fault in found
    )


@pytest.mark.parametrize(
    "text, words",
    [
        ("", "1: an application is a table [app] with a name"),
        ("app = 1", "1: an application is a table [app] with a name"),
        ("[app]\n", "1: name: missing, and it is needed"),
        ("[app]\nname = 3\n", "2: name: must be text"),
        ('[app]\nname = "a"\nto = "b"\n', "3: to: no child is called b"),
        (
            SHOP.replace("packer-1", "packer"),
            "4: to: no child is called back/packer; the nearest is back/packer-1",
        ),
        (
            SHOP.replace("SCALE_KEY", "LD_PRELOAD"),
            "24: env: must be the NAME of a variable of the tool's own",
        ),
        (SHOP.replace("SCALE_KEY", "sk-123"), "24: env: must be the NAME of an environment variable"),
        (SHOP.replace("[3, 5]", "[3]"), "15: intensity: "),
        (SHOP.replace('name = "back"', 'name = "clerk"'), "14: name: clerk is that of line 7 too"),
        ('[app]\nname = "a"\nstrategy = "x"\nchildren = 3\n', "4: children: must be a list of tables"),
    ],
)
def test_each_fault_says_what_is_wrong(tmp_path: Path, text: str, words: str) -> None:
    assert any(fault.startswith(words) for fault in faults(tmp_path, text)), faults(tmp_path, text)


def test_supervisors_nest_only_so_deep(tmp_path: Path) -> None:
    text = '[app]\nname = "a"\n'
    for depth in range(1, 17):
        text += f'[[app{".supervisors" * depth}]]\nname = "s"\n'
    assert "more than 14 supervisors one below the other" in faults(tmp_path, text)[0]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("replicas = 0x" + "f" * 4000, "a whole number in it has more than 64 bits"),
        ("tools = " + "[" * 200 + "]" * 200, "nested too deeply"),
        ("budget." + ".".join("a" * 200) + " = 1", "nested too deeply"),
    ],
)
def test_what_nobody_can_read_or_show_is_refused_at_once(tmp_path: Path, line: str, words: str) -> None:
    file = tmp_path / "app.toml"
    file.write_text(f'[app]\nname = "a"\n[[app.children]]\nname = "c"\n{line}\n')
    with pytest.raises(ConfigError, match=words):
        read_app(file)


def test_a_link_that_leads_to_itself_is_a_path_like_any_other(tmp_path: Path) -> None:
    (tmp_path / "src").symlink_to("src")
    (tmp_path / "app.toml").write_text(SHOP)
    paths = [path for code in read_app(tmp_path / "app.toml").declaration.code for path in code.python_path]
    assert str(tmp_path / "src") in paths


def test_what_an_agent_is_told_is_checked_with_its_lines_and_nobody_else_s(tmp_path: Path) -> None:
    text = (
        '[app]\nname = "a"\n[[app.children]]\nname = "one"\n[app.children.config]\ntemperature = 3\n'
        '[app.children.config.history]\nstrategi = "x"\n'
        '[[app.children]]\nname = "two"\nbehaviour = "other"\n[app.children.config]\nanything = 1\n'
    )
    found = faults(tmp_path, text)
    assert found == [
        "6: config.temperature must be at most 2 (it is 3)",
        "8: config.history.strategi is unknown; the nearest is strategy",
    ]

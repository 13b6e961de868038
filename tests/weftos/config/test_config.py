from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.bounds import Bounds
from kernel.budget.price import Price
from weftos.config.config import Config, ConfigError, load, validate_file
from weftos.config.config_file import MAX_FILE_BYTES, find_line, read_toml
from weftos.config.settings import Settings
from weftos.helpers.commands import archive_command
from weftos.lifecycle.initialise import CONFIGURATION


def written(directory: Path, text: str) -> Path:
    file = directory / "weftos.toml"
    file.write_text(text)
    return file


def refused(directory: Path, text: str, **sources: object) -> tuple[str, ...]:
    written(directory, text)
    with pytest.raises(ConfigError) as caught:
        load(directory, **sources)  # type: ignore[arg-type]
    return caught.value.faults


def origin(config: Config, key: str) -> str:
    found: str = next(row["origin"] for row in config.view() if row["key"] == key)
    return found


def test_without_a_file_everything_is_default_and_the_offline_provider_is_there(tmp_path: Path) -> None:
    config = load(tmp_path)
    assert config.file is None
    assert config.settings == Settings()
    assert config.settings.node.engine == "ray"
    assert config.settings.providers["offline"].kind == "offline"
    assert {row["origin"] for row in config.view()} == {"default"}


def test_the_file_that_init_writes_says_nothing_but_defaults(tmp_path: Path) -> None:
    config = validate_file(written(tmp_path, CONFIGURATION))
    assert config.settings == Settings()
    assert not config.origins


def test_every_example_in_the_file_that_init_writes_is_valid_when_uncommented(tmp_path: Path) -> None:
    lines = [re.sub(r"^# (?=\[|\w+ = )", "", line) for line in CONFIGURATION.splitlines()]
    settings = validate_file(written(tmp_path, "\n".join(lines))).settings
    assert settings.providers["ollama"].kind == "openai"
    assert settings.tools["word_count"].import_ == "mytools:word_count"
    assert (settings.limits, settings.logs) == (Settings().limits, Settings().logs)


def test_flag_overrides_environment_overrides_file_overrides_default(tmp_path: Path) -> None:
    written(tmp_path, '[node]\nname = "file"\nengine = "local"\n[limits]\ndead_letters = 3\nprocesses = 10\n')
    config = load(
        tmp_path,
        environment={
            "WEFTOS_NODE__NAME": "variable",
            "WEFTOS_LIMITS__DEAD_LETTERS": "4",
            "WEFTOS_DATA": "/x",
        },
        flags={"node.name": "flag", "node.engine": None},
    )
    assert config.settings.node.name == "flag"
    assert config.settings.limits.dead_letters == 4
    assert config.settings.limits.processes == 10
    assert origin(config, "node.name") == "--name"
    assert origin(config, "limits.dead_letters") == "variable WEFTOS_LIMITS__DEAD_LETTERS"
    assert origin(config, "limits.processes") == f"{tmp_path / 'weftos.toml'}:6"
    assert origin(config, "node.engine") == f"{tmp_path / 'weftos.toml'}:3"
    assert origin(config, "limits.mailbox_messages") == "default"


def test_a_file_in_the_current_directory_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "data").mkdir()
    written(tmp_path / "here", '[node]\nname = "planted"\n')
    monkeypatch.chdir(tmp_path / "here")
    assert load(tmp_path / "data").settings.node.name == ""


def test_a_file_given_by_flag_replaces_that_of_the_data_directory(tmp_path: Path) -> None:
    written(tmp_path, '[node]\nname = "data"\n[limits]\ndead_letters = 3\n')
    (tmp_path / "other").mkdir()
    config = load(tmp_path, file=written(tmp_path / "other", '[node]\nname = "other"\n'))
    assert (config.settings.node.name, config.settings.limits.dead_letters) == (
        "other",
        Bounds().dead_letters,
    )


def test_a_file_given_by_flag_must_exist(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.toml: cannot be read: No such file"):
        load(tmp_path, file=tmp_path / "none.toml")


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ('[node]\n\nengin = "ray"\n', 3, "unknown key node.engin; the nearest is node.engine"),
        ('[nodes]\nname = "x"\nage = 1\n', 1, "unknown key nodes; the nearest is node"),
        ('node.engne = "ray"\n', 1, "unknown key node.engne; the nearest is node.engine"),
        ('node = { engin = "ray" }\n', 1, "unknown key node.engin; the nearest is node.engine"),
        ("[limits]\nzzz = 1\n", 2, "unknown key limits.zzz; known here: processes, mailbox_messages"),
    ],
)
def test_an_unknown_key_is_named_with_file_line_and_nearest(
    tmp_path: Path, text: str, line: int, words: str
) -> None:
    (fault,) = refused(tmp_path, text)
    assert fault.startswith(f"{tmp_path / 'weftos.toml'}:{line}: {words}")


def test_every_fault_is_reported_at_once(tmp_path: Path) -> None:
    faults = refused(tmp_path, '[node]\nengine = "rray"\nnmae = "x"\n[logs]\nbackups = 0\n')
    assert [fault.split(": ")[0].rsplit(":", 1)[1] for fault in faults] == ["3", "2", "5"]


@pytest.mark.parametrize("key", ["api_key", "key", "secret", "token"])
def test_a_secret_in_the_file_is_refused_and_not_repeated(tmp_path: Path, key: str) -> None:
    faults = refused(tmp_path, f'[providers.x]\nkind = "offline"\n{key} = "sk-live-1234"\n')
    assert "a secret does not belong here" in faults[0]
    assert "1234" not in "".join(faults)


@pytest.mark.parametrize(
    "line",
    ['api_key_env = "sk-live-1234"', 'base_url = "http://me:live-1234@host/v1"', 'api_key_env = "sk1234"'],
)
def test_a_secret_in_the_place_of_a_name_is_refused_and_not_repeated(tmp_path: Path, line: str) -> None:
    faults = refused(tmp_path, f'[providers.x]\nkind = "openai"\n{line}\n')
    assert "weftos.toml:3: providers.x." in faults[0]
    assert "1234" not in "".join(faults)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[providers.x]\nkind = "openai"\n', 'providers.x: kind "openai" needs base_url'),
        ('[providers.x]\nkind = "opanai"\n', "providers.x.kind: Input should be 'openai'"),
        ("[providers.x]\n", "providers.x.kind: Field required"),
        ('[providers.x]\nkind="openai"\nbase_url="ftp://h"\n', "must be http://HOST... or https://HOST..."),
        ('[providers."a b"]\nkind = "offline"\n', "a name is 1 to 64 letters, digits, _ or -"),
        ("[node]\nname.first = 1\n", "node.name: Input should be a valid string"),
        ("providers = 5\n", "providers is a table: set the keys in it"),
        ("[providers]\nx = 5\n", "providers.x is a table: set the keys in it"),
        ('[model]\ndefault_provider = "mine"\n', "default_provider is mine, but the providers are offline"),
        ('[tools.t]\nimport = "os.system"\n', "tools.t.import: must be \"module:name\" (it is 'os.system')"),
        (
            "[limits]\ndead_letters = true\n",
            "limits.dead_letters: Input should be a valid integer (it is True)",
        ),
        ('[limits]\ndead_letters = "5"\n', "limits.dead_letters: Input should be a valid integer"),
        ("[limits]\nmessage_bytes = 99999999\n", "limits: message_bytes is 99999999, "),
        ("[providers.offline]\nkind='offline'\ntimeout_s = inf\n", "providers.offline.timeout_s"),
        (
            "[providers.offline]\nkind='offline'\nparallel = 0\n",
            "providers.offline.parallel: Input should be greater",
        ),
        ("[ledger]\npublish_s = 0.01\n", "ledger.publish_s: Input should be greater than or equal to 0.05"),
        ("[ledger]\npublish_s = inf\n", "ledger.publish_s: Input should be"),
        (
            "[ledger]\nsegment_bytes = 4095\n",
            "ledger.segment_bytes: Input should be greater than or equal to 4096",
        ),
        ("[ledger]\ncompact_bytes = 1e9\n", "ledger.compact_bytes: Input should be a valid integer"),
    ],
)
def test_a_wrong_value_is_refused_in_words(tmp_path: Path, text: str, words: str) -> None:
    faults = refused(tmp_path, text)
    assert words in faults[0]
    assert faults[0].startswith(str(tmp_path / "weftos.toml"))


@pytest.mark.parametrize(
    ("variable", "text", "words"),
    [
        ("WEFTOS_NODE__ENGIN", "ray", "variable WEFTOS_NODE__ENGIN: unknown key node.engin; the nearest is"),
        ("WEFTOS_ENGINE", "ray", "variable WEFTOS_ENGINE: unknown key engine"),
        ("WEFTOS_NODE", "x", "variable WEFTOS_NODE: node is a table"),
        (
            "WEFTOS_LIMITS__DEAD_LETTERS",
            "many",
            "WEFTOS_LIMITS__DEAD_LETTERS: limits.dead_letters: Input should be",
        ),
        ("WEFTOS_", "x", "variable WEFTOS_: unknown key"),
        ("WEFTOS_NODE__NAME", "a\x1b[2J", r"(it is 'a\x1b[2J')"),
    ],
)
def test_a_wrong_variable_is_refused_by_name(tmp_path: Path, variable: str, text: str, words: str) -> None:
    (fault,) = refused(tmp_path, "", environment={variable: text})
    assert words in fault


def test_variables_reach_every_type_and_entries_with_a_dash(tmp_path: Path) -> None:
    written(tmp_path, '[providers.my-llm]\nkind = "openai"\nbase_url = "http://h/v1"\n')
    settings = load(
        tmp_path,
        environment={
            "WEFTOS_PROVIDERS__MY_LLM__STREAM": "false",
            "WEFTOS_PROVIDERS__MY_LLM__TIMEOUT_S": "2.5",
            "WEFTOS_PROVIDERS__MY_LLM__PARALLEL": "2",
            "WEFTOS_TOOLS__T__IMPORT": "a.b:c",
            "WEFTOS_TOOLS__T__PYTHON_PATH": '["/srv/tools"]',
        },
    ).settings
    assert settings.providers["my-llm"].stream is False
    assert settings.providers["my-llm"].timeout_s == 2.5
    assert settings.providers["my-llm"].parallel == 2
    assert settings.tools["t"].import_ == "a.b:c"
    assert settings.tools["t"].python_path == ["/srv/tools"]


def test_the_variable_that_holds_a_key_is_no_setting_and_its_value_appears_nowhere(tmp_path: Path) -> None:
    text = '[providers.x]\nkind = "openai"\nbase_url = "http://h"\napi_key_env = "WEFTOS_SECRET"\n'
    written(tmp_path, text)
    config = load(tmp_path, environment={"WEFTOS_SECRET": "sk-live-1234"})
    assert config.secret_variables() == ("WEFTOS_SECRET",)
    assert "1234" not in repr(config) + repr(config.view())


def test_a_relative_python_path_means_beside_the_file_and_never_the_current_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path, '[behaviours.b]\nimport = "m:B"\npython_path = ["mine", "/abs"]\n')
    monkeypatch.chdir("/")
    assert load(tmp_path).settings.behaviours["b"].python_path == [str(tmp_path / "mine"), "/abs"]
    (fault,) = refused(tmp_path, "", environment={"WEFTOS_TOOLS__T__PYTHON_PATH": '["mine"]',
                                                  "WEFTOS_TOOLS__T__IMPORT": "m:t"})  # fmt: skip
    assert "must be an absolute directory" in fault


def test_limits_become_the_kernels_bounds(tmp_path: Path) -> None:
    written(tmp_path, "[limits]\ndead_letters = 7\n")
    bounds = load(tmp_path).settings.limits.bounds()
    assert (bounds.dead_letters, bounds.calls_per_round) == (7, Bounds().calls_per_round)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"\xff\xfe", "byte 0 is not UTF-8"),
        (b"a = ", "not valid TOML"),
        (b"a = " + b"[" * 4000, "nested too deeply"),
        (
            b"limits.dead_letters = 0x" + b"f" * 4070,
            "limits.dead_letters: Input should be less than or equal to",
        ),
        (b"a." * 3000 + b"b = 1", ":1: line of 6005 characters, 4096 allowed"),
        (b"#" * (MAX_FILE_BYTES + 1), f"larger than {MAX_FILE_BYTES} bytes"),
        (b"a = 1\na = 2\n", "not valid TOML"),
    ],
)
def test_a_hostile_file_is_answered_with_an_error(tmp_path: Path, data: bytes, words: str) -> None:
    file = tmp_path / "weftos.toml"
    file.write_bytes(data)
    with pytest.raises(ConfigError) as caught:
        load(tmp_path)
    assert str(caught.value).startswith(str(file))
    assert words in str(caught.value)


def test_a_pipe_or_directory_in_place_of_the_file_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path):
        with pytest.raises(ConfigError, match=r"not a regular file|Is a directory"):
            read_toml(path)


@given(st.text(alphabet="abnode=[].\"'{}\n# 1,", max_size=80))
def test_any_toml_is_configuration_or_a_config_error(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    directory = tmp_path_factory.getbasetemp()
    file = directory / "any.toml"
    file.write_text(text)
    try:
        config = load(directory, file=file)
    except ConfigError as error:
        assert all(error.faults)
    else:
        assert set(tomllib.loads(text)) <= set(Settings.model_fields)
        assert config.settings == Settings()


@pytest.mark.parametrize(
    ("text", "key", "line"),
    [
        ("[a]\nb = 1\n[c]\nb = 2\n", ("c", "b"), 4),
        ('[a."b"]\nc = 1\n', ("a", "b", "c"), 2),
        ("a.b.c = 1\n", ("a", "b", "c"), 1),
        ("[a]\nb = {c = 1}\n", ("a", "b", "c"), 2),
        ('x = """\n[a]\n"""\n[a]\nb = 1\n', ("a", "b"), None),
        ("[a]\n", ("z", "y"), None),
    ],
)
def test_a_line_is_named_only_when_it_is_unambiguous(
    text: str, key: tuple[str, ...], line: int | None
) -> None:
    assert find_line(text, key) == line


SERVER = '[providers.local]\nkind = "openai"\nbase_url = "http://127.0.0.1:1/v1"\n'


@pytest.mark.parametrize(
    ("memory", "words"),
    [
        ('embedder = "nosuch"', "embedder is nosuch, but what makes vectors is: lexical, local"),
        ('embedder = "offline"', "embedder is offline, but what makes vectors is: lexical, local"),
        ('embedder = "local"', "model is empty: name the embedding model of local"),
        ("dimensions = -1", "memory.dimensions"),
        ("dimensions = 20000", "memory.dimensions"),
        ("budget_tokens = -1", "memory.budget_tokens"),
        ('budget = "much"', "the nearest is memory.budget_tokens"),
    ],
)
def test_a_memory_that_cannot_be_is_named(tmp_path: Path, memory: str, words: str) -> None:
    assert words in " ".join(refused(tmp_path, f"{SERVER}[memory]\n{memory}\n"))


def test_the_archive_is_told_who_makes_its_vectors_and_the_agents_their_budget(tmp_path: Path) -> None:
    lexical = archive_command(load(tmp_path), tmp_path, tmp_path, tmp_path).argv
    assert "--embedder" not in lexical
    text = '[memory]\nembedder = "local"\nmodel = "words-1"\ndimensions = 64\nbudget_tokens = 9\n'
    config = validate_file(written(tmp_path, SERVER + text))
    argv = list(archive_command(config, tmp_path, tmp_path, tmp_path).argv)
    assert argv[-6:] == [
        "--embedder",
        "local",
        "--embedding-model",
        "words-1",
        "--embedding-dimensions",
        "64",
    ]
    assert config.settings.memory.budget_tokens == 9
    own = SERVER.replace("kind", 'model = "both"\nkind')
    config = validate_file(written(tmp_path, f'{own}[memory]\nembedder = "local"\n'))
    argv = list(archive_command(config, tmp_path, tmp_path, tmp_path).argv)
    assert argv[-2:] == ["--embedding-model", "both"]


def test_a_ray_cluster_is_attached_to_with_its_token_and_the_engine_ray(tmp_path: Path) -> None:
    address = '[node]\nray_address = "127.0.0.1:6379"\n'
    assert "ray_address needs ray_token" in refused(tmp_path, address)[0]
    token = {"WEFTOS_RAY_TOKEN_PATH": "/run/ray.token"}
    config = load(tmp_path, environment=token)
    assert config.settings.node.ray_token == "/run/ray.token"
    assert origin(config, "node.ray_token") == "variable WEFTOS_RAY_TOKEN_PATH"
    local = refused(tmp_path, address, environment=token, flags={"node.engine": "local"})
    assert 'ray_address needs engine "ray"' in local[0]


@pytest.mark.parametrize("address", ["auto", "ray://127.0.0.1:6379", "127.0.0.1", "127.0.0.1:0", "a b:6379"])
def test_an_address_of_ray_that_is_no_host_and_port_is_refused(tmp_path: Path, address: str) -> None:
    assert "must be HOST:PORT" in refused(tmp_path, f'[node]\nray_address = "{address}"\n')[0]


def test_addresses_of_the_mesh_may_be_written_short(tmp_path: Path) -> None:
    written(tmp_path, '[mesh]\nlisten = "127.0.0.1:7000"\njoin = "tcp://[::1]:7001"\n')
    mesh = load(tmp_path).settings.mesh
    assert (mesh.listen, mesh.join) == ("tcp://127.0.0.1:7000", "tcp://[::1]:7001")
    assert "must be HOST:PORT" in refused(tmp_path, '[mesh]\nlisten = "udp://a:1"\n')[0]


def test_the_name_of_our_own_behaviour_is_not_for_another(tmp_path: Path) -> None:
    written(tmp_path, '[behaviours.agent]\nimport = "m:Mine"\n')
    with pytest.raises(
        ConfigError, match=r"agent is the behaviour that comes with weftos.*choose another name"
    ):
        load(tmp_path)


def test_prices_are_decimal_text_by_model(tmp_path: Path) -> None:
    written(
        tmp_path,
        '[providers.p]\nkind = "openai"\nbase_url = "http://h/v1"\n'
        '[providers.p.prices."m-4.1"]\ninput = "0.25"\noutput = "2"\ncached = "0.025"\n'
        '[providers.p.prices.plain]\ninput = "3"\noutput = "15.5"\n',
    )
    settings = load(tmp_path).settings
    providers = settings.providers
    assert providers["p"].price("m-4.1") == Price(250_000, 2_000_000, 25_000)
    assert providers["p"].price("plain") == Price(3_000_000, 15_500_000, 3_000_000)
    assert providers["p"].price("other") is None
    assert providers["offline"].price("whatever") == Price()
    assert "prices" not in settings.gateway()["providers"]["p"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (
            'input = "1.0000001"\noutput = "2"',
            "providers.p.prices.m.input: '1.0000001' is no amount of money",
        ),
        ('input = 0.25\noutput = "2"', "providers.p.prices.m.input: Input should be a valid string"),
        ('input = "1"', "providers.p.prices.m.output: Field required"),
        ('input = "1"\noutput = "2"\ncache = "1"', "unknown key providers.p.prices.m.cache; the nearest is"),
    ],
)
def test_a_wrong_price_is_named(tmp_path: Path, line: str, words: str) -> None:
    text = f'[providers.p]\nkind = "openai"\nbase_url = "http://h/v1"\n[providers.p.prices.m]\n{line}\n'
    faults = refused(tmp_path, text)
    assert any(words in fault for fault in faults), faults


def test_what_agents_are_told_is_checked_by_their_own_schema(tmp_path: Path) -> None:
    text = '[agent]\nsystem_prompt = "Be brief."\n[agent.history]\nmax_tokens = 100\n'
    config = load(
        written(tmp_path, text).parent,
        environment={
            "WEFTOS_AGENT__EXECUTION__MAX_TOOL_ROUNDS": "3",
            "WEFTOS_AGENT__PIPELINE__SKIP_STAGES": '["tool_split"]',
            "WEFTOS_AGENT__TOOLS": '["calculator"]',
        },
    )
    assert config.settings.agent == {
        "system_prompt": "Be brief.",
        "history": {"max_tokens": 100},
        "execution": {"max_tool_rounds": 3},
        "pipeline": {"skip_stages": ["tool_split"]},
        "tools": ["calculator"],
    }
    assert origin(config, "agent.history.max_tokens").endswith("weftos.toml:4")
    assert origin(config, "agent.execution.max_tool_rounds") == (
        "variable WEFTOS_AGENT__EXECUTION__MAX_TOOL_ROUNDS"
    )
    assert origin(config, "agent.recall_tokens") == "default"


def test_faults_of_what_agents_are_told_have_their_line_and_all_come_at_once(tmp_path: Path) -> None:
    text = (
        "[agent]\nmodel = 7\nmodle = 1\n[agent.history]\nmax_tokens = 0\n"
        '[agent.pipeline]\nstages = ["execute", 3]\n'
    )
    faults = refused(tmp_path, text)
    for line, words in (
        (2, "agent.model must be text (it is 7)"),
        (3, "unknown key agent.modle; the nearest is agent.model"),
        (5, "agent.history.max_tokens must be at least 1 (it is 0)"),
        (7, "agent.pipeline.stages[1] must be text (it is 3)"),
    ):
        assert any(f"weftos.toml:{line}: {words}" in fault for fault in faults), (words, faults)


def test_stages_that_do_not_fit_together_stop_the_boot_and_not_each_agent(tmp_path: Path) -> None:
    text = '[agent.pipeline]\nstages = ["tool_split"]\nskip_stages = ["execut"]\n'
    [fault] = refused(tmp_path, text)
    other = refused(tmp_path, text + "[agent.history]\nmax_token = 1\n")
    assert len(other) == 2, "beside what else is wrong"
    assert "execute is missing" in fault and "there is no stage 'execut'; the nearest is execute" in fault

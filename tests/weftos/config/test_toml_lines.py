"""Where keys stand in TOML."""

from __future__ import annotations

import tomllib
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from weftos.config.toml_lines import Path, TomlLines

TEXT = '''\
# a comment [not.a.header]
[app]
name = "shop"   # x = 1
text = """
[[app.children]]
name = "inside a string"
"""
other = \'\'\'
a = 1 \'\'\'
list = [
  1, # ]
  "]", [2],
]
[[app.children]]
name = "a"
[[app.children]]
name = 'b'
"quoted key" = {x = 1, y = "}"}
[app.children.extra]
deep.er = 1
[[app.supervisors]]
[[app.supervisors.children]]
name = "c"
[[app.supervisors]]
[[app.supervisors.children]]
name = "d"
'''


def test_keys_in_tables_lists_and_behind_values_of_several_lines() -> None:
    tomllib.loads(TEXT)
    lines = TomlLines(TEXT)
    assert dict(lines.all()) == {
        ("app",): 2,
        ("app", "name"): 3,
        ("app", "text"): 4,
        ("app", "other"): 8,
        ("app", "list"): 10,
        ("app", "children", 0): 14,
        ("app", "children", 0, "name"): 15,
        ("app", "children", 1): 16,
        ("app", "children", 1, "name"): 17,
        ("app", "children", 1, "quoted key"): 18,
        ("app", "children", 1, "extra"): 19,
        ("app", "children", 1, "extra", "deep", "er"): 20,
        ("app", "supervisors", 0): 21,
        ("app", "supervisors", 0, "children", 0): 22,
        ("app", "supervisors", 0, "children", 0, "name"): 23,
        ("app", "supervisors", 1): 24,
        ("app", "supervisors", 1, "children", 0): 25,
        ("app", "supervisors", 1, "children", 0, "name"): 26,
    }
    assert lines.of(("app", "children", 1, "missing")) == 16
    assert lines.of(("app", "nothing")) == 2 and lines.of(("x",)) == 1


def test_a_line_ends_where_toml_ends_it() -> None:
    text = '# one\u2028[other] \x85 = 1\n[app]\nname = "a\u2028b"\r\nto = "x"\n'
    assert set(tomllib.loads(text)) == {"app"}
    assert dict(TomlLines(text).all()) == {("app",): 2, ("app", "name"): 3, ("app", "to"): 4}


VALUES = st.one_of(
    st.integers(-9, 9).map(str),
    st.text("ab'[]{}#=\n ", max_size=8).map(lambda text: '"""\n' + text + '"""'),
    st.text('ab"[]{}#=\n ', max_size=8).map(lambda text: "'''" + text.rstrip("'") + " '''"),
    st.lists(st.integers(0, 9), max_size=3).map(
        lambda items: "[\n" + "".join(f" {i}, # ]\n" for i in items) + "]"
    ),
    st.text("ab'[]{}#= ", max_size=8).map(lambda text: f'"{text}"'),
    st.just('{ a = 1, b = ["x]", 2] }'),
)


@given(st.lists(st.lists(VALUES, max_size=4), min_size=1, max_size=4))
def test_whatever_the_values_are_each_key_is_found_where_it_was_written(tables: list[list[str]]) -> None:
    text = ""
    expected: dict[Path, int] = {}
    for number, values in enumerate(tables):
        text += "[[t]]\n"
        expected[("t", number)] = text.count("\n")
        for key, value in enumerate(values):
            expected[("t", number, f"k{key}")] = text.count("\n") + 1
            text += f"k{key} = {value}  # end\n"
    content: Any = tomllib.loads(text)["t"]
    assert [len(table) for table in content] == [len(values) for values in tables]
    found: dict[Path, int] = dict(TomlLines(text).all())
    assert found == expected

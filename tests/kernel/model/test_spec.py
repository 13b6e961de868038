"""The specs of replicas: each is told and read as if it were the only one."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.errors import Invalid
from kernel.model.spec import ProcessSpec

ODD = ['","name":"x', '\\"', "\n", '"}', ',"workspace":"/w"}', "é", "\ud800"]
names = st.text(max_size=6) | st.sampled_from(ODD)
keys = names | st.just("name")
configs = st.dictionaries(keys, names | st.dictionaries(keys, names, max_size=1), max_size=2)
specs = st.builds(
    ProcessSpec,
    names,
    behaviour=st.sampled_from(["agent", "idle"]),
    tools=st.tuples() | st.tuples(names),
    workspace=names,
    config=configs,
    template=st.none() | st.builds(ProcessSpec, names, config=configs),
)


def plainly(spec: ProcessSpec) -> str:
    """The canonical JSON of a spec, made by nothing of what is tested."""
    return json.dumps(spec._told(), sort_keys=True, separators=(",", ":"), ensure_ascii=False)


@given(specs, st.lists(st.tuples(names, names), max_size=4))
def test_replicas_are_told_and_read_as_if_each_were_the_only_one(
    like: ProcessSpec, named: list[tuple[str, str]]
) -> None:
    replicas = [like, *(like.named(*each) for each in named), replace(like, behaviour="other")]
    told = [spec.to_json() for spec in replicas]
    assert told == [plainly(spec) for spec in replicas]
    assert [ProcessSpec.from_json(text) for text in told] == replicas
    assert [ProcessSpec.from_json(text).to_json() for text in told] == told


def test_what_is_read_of_replicas_shares_all_but_their_names() -> None:
    like = ProcessSpec("a-1", workspace="/w/a-1", config={"model": "m"}, tools=("calculator",))
    one, other = (ProcessSpec.from_json(like.named(f"a-{n}", f"/w/a-{n}").to_json()) for n in (2, 3))
    assert (other.name, other.workspace) == ("a-3", "/w/a-3")
    assert one.config is other.config and one.tools is other.tools


@pytest.mark.parametrize("name", ['a"', "a\\", "a\x01", 'a","x":"'])
def test_a_text_that_is_no_json_is_read_by_none_also_behind_one_that_is_nearly_the_same(name: str) -> None:
    text = ProcessSpec("good", workspace="/w").to_json()
    assert ProcessSpec.from_json(text).name == "good"
    with pytest.raises(Invalid, match="process spec"):
        ProcessSpec.from_json(text.replace('"good"', f'"{name}"'))


def test_a_text_that_is_not_canonical_is_read_by_what_it_says_and_so_is_the_next() -> None:
    told: dict[str, Any] = json.loads(ProcessSpec("own", workspace="/w").to_json())
    told["config"] = {"z": {"name": "inner", "on": 1}}
    last = {
        key: told[key]
        for key in ("name", "config", *(set(told) - {"name", "config", "workspace"}), "workspace")
    }
    for own, inner in (("own", "inner"), ("other", "inner"), ("other", "deeper")):
        last["name"], last["config"]["z"]["name"] = own, inner
        read = ProcessSpec.from_json(json.dumps(last, separators=(",", ":")))
        assert (read.name, read.config["z"]["name"]) == (own, inner)

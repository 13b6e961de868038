import json
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.errors import CapabilityError, Invalid
from kernel.model.capability import (
    EVERYTHING,
    NOTHING,
    Rights,
    beyond,
    child_of,
    handed_down,
    intersect,
    is_within,
    matching,
    may_address,
    may_enter,
    not_within,
    tools_of,
)
from kernel.model.spec import ProcessSpec
from kernel.operations.rights.capabilities import (
    Capabilities,
    MemoryScope,
    MessageScope,
    read_capabilities,
)

TOOLS = ["calculator", "file_read", "file_write", "ask"]
rights = st.one_of(st.just(EVERYTHING), st.sets(st.sampled_from(TOOLS)).map(Rights.of))


def test_the_rights_of_a_turn_are_what_agent_sender_and_channel_all_have() -> None:
    agent, sender, channel = (
        Rights.of(["ask", "file_read"]),
        EVERYTHING,
        Rights.of(["file_read", "file_write"]),
    )
    assert intersect(agent, sender, channel) == Rights.of(["file_read"])
    assert intersect(EVERYTHING, EVERYTHING) == EVERYTHING
    assert intersect(EVERYTHING, NOTHING) == NOTHING


def test_nobodys_rights_are_an_error_and_not_everything() -> None:
    with pytest.raises(ValueError, match="no rights"):
        intersect()


@given(st.lists(rights, min_size=1), st.sampled_from([*TOOLS, "unknown"]))
def test_an_intersection_allows_exactly_what_all_allow(many: list[Rights], tool: str) -> None:
    assert intersect(*many).allows(tool) == all(one.allows(tool) for one in many)


@given(rights, rights)
def test_a_child_gets_what_it_wants_or_nothing_at_all_and_never_more_than_its_parent(
    parent: Rights, wanted: Rights
) -> None:
    within = intersect(parent, wanted) == wanted
    if within:
        assert child_of(parent, wanted) == wanted
    else:
        with pytest.raises(CapabilityError):
            child_of(parent, wanted)


def test_what_exceeds_is_named() -> None:
    parent = Rights.of(["ask", "file_read"])
    with pytest.raises(
        CapabilityError, match=r"does not have: calculator, file_write \(it has: ask, file_read\)"
    ) as caught:
        child_of(parent, Rights.of(["file_write", "ask", "calculator"]))
    assert caught.value.code == "refused"
    with pytest.raises(
        CapabilityError, match="every tool was asked for, the parent has only: ask, file_read"
    ):
        child_of(parent, EVERYTHING)
    with pytest.raises(CapabilityError, match="the parent has only: no tool"):
        child_of(NOTHING, EVERYTHING)


@given(rights)
def test_rights_come_back_from_a_spec(one: Rights) -> None:
    assert Rights.of(one.names()) == one


def test_no_tools_is_not_every_tool() -> None:
    assert Rights.of([]).names() == []
    assert not Rights.of([]).allows("ask")
    assert EVERYTHING.names() is None


# -- patterns --------------------------------------------------------------------------------------------------------

names = st.text("ab_", min_size=1, max_size=4)
patterns = st.text("ab_*?", min_size=1, max_size=4)


@given(st.lists(patterns, max_size=3), patterns, names)
def test_what_is_within_a_pattern_means_nothing_that_it_does_not(
    held: list[str], wanted: str, name: str
) -> None:
    if not not_within(held, [wanted]) and matching([wanted], name):
        assert matching(held, name)


@pytest.mark.parametrize(
    ("pattern", "wanted", "within"),
    [
        ("file_*", "file_read", True),
        ("file_*", "file_r*", True),
        ("*", "*", True),
        ("*", "a?", True),
        ("file_*", "f*", False),
        ("a?", "a*", False),
        ("a*b", "aab", True),
        ("*.example.org", "api.example.org", True),
        ("*.example.org", "*.api.example.org", True),
        ("*.example.org", "api.*.org", False),
        ("*.example.org", "*", False),
        ("a*b", "a*cb", False),  # it is, but that is not seen: refused, never granted by mistake
        ("ask", "ask*", False),
    ],
)
def test_what_lies_within_a_pattern(pattern: str, wanted: str, within: bool) -> None:
    assert is_within(pattern, wanted) is within


def test_patterns_mean_tools_that_there_are_and_what_is_denied_is_none_of_them() -> None:
    known = ["file_read", "file_write", "ask", "pay"]
    assert tools_of(["file_*", "later"], [], known) == {"file_read", "file_write", "later"}
    assert tools_of(["*"], ["file_w*", "pay"], known) == {"file_read", "ask"}
    assert tools_of(["pay"], ["*"], known) == frozenset()


# -- capabilities ----------------------------------------------------------------------------------------------------

PARENT, CHILD = "/user/boss", "/user/boss/kid"
WHOM = [
    "/user/boss",
    "/user/boss/kid",
    "/user/boss/kid/toy",
    "/user/boss/sis",
    "/user/other",
    "/user/boss/kid/toy/x",
]
NODES = ["*@n2", "/user/*@n2", "/user/boss/kid@n2"]
listed = st.lists(st.sampled_from([*WHOM, "/user/*", "/user/boss/*", "*", *NODES]), max_size=2).map(tuple)
scopes: list[tuple[MemoryScope, ...] | None] = [None, (), ("own",), ("shared",), ("own", "shared")]
subsets = st.sampled_from(scopes)


@st.composite
def capabilities(draw: st.DrawFn) -> Capabilities:
    messages = draw(st.sampled_from([None, *get_args(MessageScope)]))
    return Capabilities(
        deny=draw(st.lists(patterns, max_size=2).map(tuple)),
        messages=messages,
        listed=draw(listed) if messages == "listed" else None,
        spawn=draw(st.sampled_from([None, True, False])),
        topics=draw(st.one_of(st.none(), st.lists(patterns, max_size=2).map(tuple))),
        memory=draw(subsets),
        paths=draw(
            st.one_of(st.none(), st.lists(st.sampled_from(["a", "a/b", ".", "b"]), max_size=2).map(tuple))
        ),
        network=draw(st.one_of(st.none(), st.lists(patterns, max_size=2).map(tuple))),
    )


@given(capabilities(), capabilities(), st.sampled_from(WHOM), st.sampled_from(["", "n2"]), names)
def test_a_child_may_nothing_that_its_parent_may_not_but_speak_to_its_parent(
    above: Capabilities, wanted: Capabilities, to: str, node: str, name: str
) -> None:
    try:
        had = handed_down(above, PARENT, wanted)
    except CapabilityError:
        return
    if may_address(had, CHILD, to, node) and (to, node) != (PARENT, ""):
        assert may_address(above, PARENT, to, node)
    if matching(above.deny, name):
        assert matching(had.deny, name)
    assert above.spawn is not False or had.spawn is False
    if above.topics is not None:
        assert had.topics is not None
        assert not matching(had.topics, name) or matching(above.topics, name)
    if not beyond(had.network, [name]):
        assert not beyond(above.network, [name])
    if above.memory is not None:
        assert set(had.memory or ()) <= set(above.memory) and had.memory is not None
    for path in ("a", "a/b", "a/b/c", "b", "c"):
        if above.paths is not None and not may_enter(above.paths, path):
            assert had.paths is not None and not may_enter(had.paths, path)


@given(capabilities(), capabilities())
def test_what_was_handed_down_is_handed_down_as_it_is(above: Capabilities, wanted: Capabilities) -> None:
    try:
        had = handed_down(above, PARENT, wanted)
    except CapabilityError:
        return
    assert handed_down(above, PARENT, had) == had
    assert read_capabilities(had.told()) == had


def test_all_that_goes_beyond_is_named_at_once() -> None:
    above = Capabilities(
        messages="subtree",
        spawn=False,
        memory=("own",),
        paths=("docs",),
        topics=("a.*",),
        network=("*.x.org",),
    )
    wanted = Capabilities(
        messages="all",
        spawn=True,
        memory=("shared",),
        paths=(".",),
        topics=("b",),
        network=("y.org", "a.x.org"),
    )
    with pytest.raises(CapabilityError) as caught:
        handed_down(above, PARENT, wanted)
    for word in ("messages all", "spawn", "memory shared", r"paths .", "topics b", "network y.org"):
        assert word in str(caught.value)
    assert "a.x.org" not in str(caught.value)


def test_who_has_no_network_gives_none_and_who_is_told_nothing_has_it_as_its_parent() -> None:
    none = Capabilities(network=())
    assert handed_down(none, PARENT, Capabilities()).network == ()
    assert handed_down(Capabilities(), PARENT, Capabilities(network=("a.org",))).network == ("a.org",)
    with pytest.raises(CapabilityError, match=r"does not have: network \*"):
        handed_down(none, PARENT, Capabilities(network=("*",)))


@pytest.mark.parametrize(
    "above",
    [
        Capabilities(messages="subtree"),
        Capabilities(messages="listed", listed=("/user/boss/*", "/user/x@n1")),
    ],
)
def test_whom_a_process_may_speak_to_here_its_child_may_not_on_another_node(above: Capabilities) -> None:
    for node in ("n2", "*"):
        wanted = Capabilities(messages="listed", listed=(f"/user/boss/a@{node}",))
        with pytest.raises(CapabilityError, match="messages to /user/boss/a@"):
            handed_down(above, PARENT, wanted)
    some = Capabilities(messages="listed", listed=("*@n*",))
    one = Capabilities(messages="listed", listed=("/user/x@n2",))
    assert handed_down(some, PARENT, one) == one


def test_a_path_that_leads_upwards_is_in_no_part_of_a_workspace() -> None:
    assert may_enter(["."], "a/b")
    assert may_enter(["a"], "./a//b")
    assert not may_enter(["a"], "ab")
    assert not may_enter(["."], "a/../../b")
    assert not may_enter(["."], "/a")


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ([], "are a map"),
        ({"toools": []}, "no field 'toools'"),
        ({"deny": "pay"}, "deny is a list"),
        ({"deny": None}, "deny is a list"),
        ({"messages": "some"}, "messages 'some' is none of all, subtree"),
        ({"messages": 5}, "messages is a text"),
        ({"messages": "listed"}, "give both or neither"),
        ({"listed": ["/user/a"]}, "give both or neither"),
        ({"spawn": 1}, "spawn is true or false"),
        ({"memory": ["other"]}, "memory 'other' is none of own, shared"),
        ({"paths": ["../x"]}, "leads out of the workspace"),
        ({"paths": ["/etc"]}, "leads out of the workspace"),
        ({"deny": ["a[b]"]}, "and no"),
        ({"topics": [""]}, "1 to 256 printable characters"),
        ({"deny": ["x"] * 101}, "at most 100"),
        ({"network": "a.org"}, "network is a list"),
        ({"network": ["https://a.org"]}, "network 'https://a.org' is no host: give a name or an address"),
        ({"network": ["a.org:443"]}, "without scheme, port and path"),
        ({"network": ["A.org"]}, "in lower case"),
        ({"network": [""]}, "network '' is no host"),
        ({"network": ["x"] * 101}, "network has 101 hosts, at most 100"),
    ],
)
def test_every_wrong_capability_is_named(value: object, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        read_capabilities(value)


def test_a_spec_of_a_version_without_capabilities_is_held_to_none() -> None:
    spec = ProcessSpec("ada")
    told = json.loads(spec.to_json())
    del told["capabilities"]
    assert ProcessSpec.from_json(json.dumps(told)) == spec
    held = ProcessSpec("ada", capabilities=Capabilities(deny=("pay",), memory=()))
    assert ProcessSpec.from_json(held.to_json()) == held
    with pytest.raises(Invalid, match="no field 'x'"):
        ProcessSpec.from_json(json.dumps({**told, "capabilities": {"x": 1}}))

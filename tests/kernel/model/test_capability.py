import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.errors import CapabilityError
from kernel.model.capability import EVERYTHING, NOTHING, Rights, child_of, intersect

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

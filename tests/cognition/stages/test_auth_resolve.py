"""The stage ``auth_resolve``: the turn says who asks, as the node has recorded it, and gives up where it has not."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from cognition.config.agent_config import PipelineConfig
from cognition.stages.auth_resolve import auth_resolve
from cognition.turn.agent_turn import AgentTurn
from cognition.turn.builder import PipelineError
from cognition.turn.order import builder_of
from cognition.turn.outcome import Abort, Continue
from kernel.abi import NOBODY, Identity, Inbound
from tests.cognition.twins.scripted_node import begun_turn


def turn_of(inbound: Inbound | None, sender: str = "operator") -> AgentTurn:
    turn = begun_turn()
    message = replace(turn.message, inbound=inbound, sender=sender)
    return AgentTurn.begin(message, turn.sys, turn.config, turn.bounds)


ALICE = Identity("alice", ("staff", "payer"), "premium")


@pytest.mark.parametrize(
    ("inbound", "sender", "says"),
    [
        (None, "operator", "operator (operator)"),
        (None, "/user/b", "/user/b (agent)"),
        (None, "/user/b@weftos-x", "/user/b@weftos-x (peer)"),
        (
            Inbound("tel", "1", "7", who=ALICE),
            "operator",
            "tel:7 is alice (staff, payer, premium at most, not shown what is sensitive)",
        ),
        (Inbound("tel", "1", "7", who=Identity("b", ("x",), "", True)), "operator", "tel:7 is b (x)"),
    ],
)
def test_it_says_who_asks(inbound: Inbound | None, sender: str, says: str) -> None:
    outcome = asyncio.run(auth_resolve(turn_of(inbound, sender)))
    assert isinstance(outcome, Continue) and outcome.why == says


def test_the_turn_goes_by_the_identity_and_not_by_the_sender_of_the_node() -> None:
    turn = turn_of(Inbound("tel", "1", "7", who=ALICE))
    assert (turn.sender, turn.roles, turn.identity.max_tier) == ("alice", ("staff", "payer"), "premium")
    assert (turn_of(None).sender, turn_of(None).roles) == ("operator", ("operator",))


@pytest.mark.parametrize("who", [NOBODY, Identity("tel:7", ())])
def test_where_the_node_has_said_nothing_of_a_user_the_turn_is_over(who: Identity) -> None:
    outcome = asyncio.run(auth_resolve(turn_of(Inbound("tel", "1", "7", who=who))))
    assert outcome == Abort("AccessDenied: the node has not said who 7 of tel is.")


def test_it_stands_first_and_cannot_be_skipped() -> None:
    assert builder_of(PipelineConfig()).stages[0].name == "auth_resolve"
    with pytest.raises(PipelineError, match="auth_resolve cannot be skipped"):
        builder_of(PipelineConfig(skip_stages=("auth_resolve",))).build()
    with pytest.raises(PipelineError, match="history_sanitize stands before auth_resolve"):
        builder_of(PipelineConfig(stages=("history_sanitize", "auth_resolve", "execute"))).build()
    first = builder_of(PipelineConfig(
        stages=("auth_resolve", "history_sanitize", "context_guard", "tool_split", "execute", "failover_decide")
    )).build()  # fmt: skip
    second = builder_of(
        PipelineConfig(stages=("classify", "route", "assemble", "transport", "score"))
    ).build()
    assert first.names[0] == "auth_resolve" and "auth_resolve" not in second.names

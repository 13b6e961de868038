"""Who may ask, how often, and for how much, end to end: the file, the node that decides, what a kill leaves."""

from __future__ import annotations

import pytest

from tests.integration.live_node import WAIT_S, LiveNode, until
from tests.integration.test_routing import HARD, MIDDLING, asked, waits_for
from weftos import WeftosError

EXTRA = """
[routing]
mode = "tiered"
[[routing.tiers]]
name = "free"
models = ["offline"]
[[routing.tiers]]
name = "standard"
models = ["scripted/kept", "single/kept"]
selection = "round_robin"
[[routing.tiers]]
name = "premium"
models = ["scripted/endless"]
[routing.budgets.tiers.premium]
daily = "0.06"
[routing.permissions.roles]
guest = "free"
[providers.scripted.prices.endless]
input = "2"
output = "10"
[identities.alice]
users = ["tel:7", "shut:7"]
roles = ["staff"]
max_tier = "standard"
[permissions.roles.staff]
agents = ["/user/front*"]
deny_tools = ["file_*"]
[permissions.channels.shut]
unknown = []
[rate_limits.senders."tel:*"]
per_minute = 2
[agent.channel_overrides.shut]
tools = ["none"]
"""


def stage(node: LiveNode, turn: object, name: str) -> str:
    """What a stage of a turn has said."""
    status, out, err = node.command("trace", "--turn", str(turn))
    assert status == 0, err
    return next(line for line in out.splitlines() if name in line)


def test_a_question_under_way_holds_its_part_of_a_cap_over_the_death_of_the_node(node: LiveNode) -> None:
    """One question may cost 0.04 and some: while it is under way, or nobody knows what it came to, others pay less."""
    for name in ("holds", "front"):
        node.api.spawn(name, tools=())
    message = str(node.api.send("holds", HARD)["message"])
    turn = f"t{message[1:]}"
    until(lambda: asked(node, turn) == [("scripted", "endless")], "it is put")

    def routed() -> tuple[str, str]:
        [found] = asked(node, node.api.send("front", HARD, wait_s=WAIT_S)["turn"])
        return found

    assert routed()[1] == "kept"
    assert any(
        "tier premium may cost 0.06 a day, 0.0" in line["text"] for line in node.logged("agent", "cap: ")
    )
    node.kill()
    node.up()
    until(lambda: waits_for(node, "holds") == "model", "it is put again")
    assert [each["scopes"] for each in node.entries("budget.reserved")] == [["tier premium"]]
    assert routed()[1] == "kept"
    status, out, _ = node.command("budget", "caps")
    assert status == 0 and "tier premium" in out and "0.06" in out
    node.api.cancel("holds", message=message)
    until(lambda: node.ended(message), "the turn ends")
    assert routed()[1] == "kept"


def test_models_of_a_tier_take_turns_whichever_agent_asks(node: LiveNode) -> None:
    for name in ("front-1", "front-2"):
        node.api.spawn(name, tools=())
    turns = [node.api.send(f"front-{n % 2 + 1}", MIDDLING, wait_s=WAIT_S)["turn"] for n in range(4)]
    providers = [asked(node, turn)[0][0] for turn in turns]
    assert providers[:2] == providers[2:] and set(providers) == {"scripted", "single"}
    assert len([each for each in node.entries("model.quoted") if each["turn"] == turns[0]]) == 2


def test_a_user_has_the_tier_the_tools_and_the_processes_of_his_roles(node: LiveNode) -> None:
    node.api.spawn("front-desk", tools=["calculator", "file_read"])
    node.api.spawn("back", tools=["calculator"])
    known = node.api.send("front-desk", HARD, channel="tel", user="7", wait_s=WAIT_S)
    assert asked(node, known["turn"])[0][1] == "kept"
    assert "tel:7 is alice (staff, standard at most" in stage(node, known["turn"], "auth_resolve")
    assert "1 of 1 tools" in stage(node, known["turn"], "tool_split")
    shut = node.api.send("front-desk", "hi", channel="shut", user="7", wait_s=WAIT_S)
    assert "text only" in stage(node, shut["turn"], "tool_split")
    guest = node.api.send("back", HARD, channel="web", user="x", wait_s=WAIT_S)
    assert asked(node, guest["turn"]) == [("offline", "")]
    before = len(node.entries("message.accepted"))
    for target, channel, user, why in (
        ("back", "tel", "7", "who is staff may not ask /user/back"),
        ("front-desk", "shut", "8", "nobody knows shut:8"),
    ):
        with pytest.raises(WeftosError, match=f"AccessDenied: user {user} of channel {channel}: {why}"):
            node.api.send(target, "hi", channel=channel, user=user)
    assert [each["user"] for each in node.entries("access.denied")] == ["7", "8"]
    assert len(node.entries("message.accepted")) == before
    status, out, _ = node.command("tools", "front-desk", "--as", "tel:7")
    assert status == 0 and "file_read is not used for alice (staff)" in out
    status, out, _ = node.command("policy", "explain", "back", "calculator", "--as", "tel:7")
    assert status == 0 and "/user/back, calculator: deny" in out


def test_a_message_too_many_is_refused_before_and_after_a_kill(node: LiveNode) -> None:
    node.api.spawn("front-door", tools=())
    for _ in range(2):
        node.api.send("front-door", "hi", channel="tel", user="9")
    for boots in range(2):
        with pytest.raises(
            WeftosError, match="rate: tel:9 may send 2 messages in a minute; try again in"
        ) as raised:
            node.api.send("front-door", "hi", channel="tel", user="9")
        assert raised.value.code == "busy" and 0 < raised.value.retry_after_s <= 60
        if not boots:
            node.kill()
            node.up()
    node.api.send("front-door", "hi", channel="tel", user="10")


def test_what_is_configured_otherwise_holds_from_the_next_message_on(node: LiveNode) -> None:
    node.api.spawn("front-gate", tools=())
    with pytest.raises(WeftosError, match="AccessDenied"):
        node.api.send("front-gate", "hi", channel="shut", user="8")
    config = node.place / "weftos.toml"
    config.write_text(node.configuration.replace("unknown = []", 'unknown = ["guest"]'))
    status, out, err = node.command("config", "reload")
    assert status == 0 and "permissions.channels.shut.unknown" in out, err
    assert node.api.send("front-gate", "hi", channel="shut", user="8", wait_s=WAIT_S)["status"] == "ok"

"""What an agent sends with a key it sends once, with a time it sends for no longer; and what its receiver is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kernel.slice import Told
from kernel.slices.mail.keyed import MOST_KEYS, KeyedMessages
from tests.kernel.syscall.test_open_calls import until
from tests.kernel.turn.test_turns import on_twin
from tests.kernel.twins.kernel_twin import Delivery, Twin

HELLO = {"to": "bob", "text": "hello", "key": "k1"}


async def sender(twin: Twin, name: str = "ada") -> Delivery:
    await twin.spawn(name, tools=("send_message",))
    await twin.send(name)
    return await twin.delivery()


async def send(twin: Twin, at: Delivery, round_: int, **more: Any) -> tuple[str, str]:
    result = await twin.call_tool(at, "send_message", {**HELLO, **more}, round_)
    return result["status"], result["text"]


def test_the_same_message_with_the_same_key_is_sent_once(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        await twin.spawn("bob")
        at = await sender(twin)
        status, first = await send(twin, at, 0)
        bob = await twin.delivery()
        assert (status, first) == ("ok", f"accepted as {bob.message.id} for /user/bob")
        assert await send(twin, at, 1) == ("ok", f"accepted before, as {bob.message.id} for /user/bob")
        status, why = await send(twin, at, 2, text="other")
        assert status == "error" and f"under this key, {bob.message.id}" in why
        assert (await send(twin, at, 3, key="k2"))[1].startswith("accepted as ")
        assert len(await twin.entries("message.keyed")) == 2
        twin.finish(bob)
        await twin.delivery()
        eve = await sender(twin, "eve")
        assert (await send(twin, eve, 0))[1].startswith("accepted as ")  # a key is of its process

    on_twin(tmp_path, body)

    async def booted(twin: Twin) -> None:
        known = {(keyed.by, keyed.to) for keyed in twin.kernel.state.keyed.values()}
        assert known == {("/user/ada", "/user/bob"), ("/user/eve", "/user/bob")}

    on_twin(tmp_path, booted)


def test_the_keys_of_a_process_go_with_it(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        await twin.spawn("bob")
        at = await sender(twin)
        await send(twin, at, 0)
        await send(twin, at, 1, key="k2")
        await twin.delivery()  # bob's
        eve = await sender(twin, "eve")
        await send(twin, eve, 0)
        twin.finish(at)
        twin.kernel.processes.stop("/user/ada")
        await until(lambda: twin.kernel.live.at("/user/ada") is None)
        await twin.kernel.processes.remove("/user/ada", False)
        assert "/user/ada" not in twin.kernel.state.slots
        assert [keyed.by for keyed in twin.kernel.state.keyed.values()] == ["/user/eve"]
        again = await sender(twin)
        assert (await send(twin, again, 0))[1].startswith("accepted as ")

    on_twin(tmp_path, body)


def test_what_has_expired_when_its_turn_would_begin_is_a_dead_letter(tmp_path: Path) -> None:
    now = [1_700_000_000_000_000]

    async def body(twin: Twin) -> None:
        await twin.spawn("bob")
        await twin.send("bob", "long")
        long = await twin.delivery()
        at = await sender(twin)
        status, said = await send(twin, at, 0, expires_s=5)
        late = said.split()[2]
        assert status == "ok"
        now[0] += 6_000_000
        twin.finish(long)
        await until(lambda: late in twin.kernel.state.dead)
        assert twin.kernel.state.dead[late].reason == "expired"

    on_twin(tmp_path, body, now_us=lambda: now[0])


def test_its_receiver_is_told_turn_trace_and_deadline(tmp_path: Path) -> None:
    now = 1_700_000_000_000_000

    async def body(twin: Twin) -> None:
        await twin.spawn("bob")
        at = await sender(twin)
        assert (at.message.turn, at.message.deadline_us) == (at.turn, 0)
        await send(twin, at, 0, expires_s=5)
        bob = await twin.delivery()
        assert (bob.message.turn, bob.message.trace) == (bob.turn, at.message.trace)
        assert bob.message.deadline_us == now + 5_000_000

    on_twin(tmp_path, body, now_us=lambda: now)


def test_no_agent_has_the_key_of_a_person_forgotten() -> None:
    keyed = KeyedMessages()

    def tell(number: int, by: str) -> None:
        told = {"id": f"m{number}", "key": f"k{number}", "request": "r", "to": "/user/bob", "by": by}
        keyed.hears()["message.keyed"](Told(told, number, 1, b"", 0))

    tell(0, "")
    for number in range(1, MOST_KEYS + 1):
        tell(number, "/user/ada")
    assert keyed.known("k0", 1) is not None
    assert len(keyed) == MOST_KEYS // 2 + 1 and keyed.known(f"k{MOST_KEYS}", 1) is not None
    again = KeyedMessages()
    again.restore(keyed.rows())
    assert list(again.items()) == list(keyed.items())
    assert KeyedMessages.MIGRATIONS[1]([["k", "r", "m1", "/user/bob", 1, "", ""]])[0][-1] == ""


def test_no_process_has_the_keys_of_another_forgotten() -> None:
    """Who has sent most under keys forgets its own, also when others have sent theirs before, and after a boot."""
    keyed, again = KeyedMessages(), KeyedMessages()

    def tell(keys: KeyedMessages, number: int, by: str) -> None:
        told = {"id": f"m{number}", "key": f"k{number}", "request": "r", "to": "/user/bob", "by": by}
        keys.hears()["message.keyed"](Told(told, number, 1, b"", 0))

    for number in range(100):
        tell(keyed, number, f"/user/a{number % 50}")
    for number in range(100, MOST_KEYS):
        tell(keyed, number, "/user/eve")
    again.restore(keyed.rows())
    for keys in (keyed, again):
        for number in range(MOST_KEYS, MOST_KEYS + 10):
            tell(keys, number, "/user/eve")
        assert all(keys.known(f"k{number}", 1) is not None for number in range(100))
        assert len(keys) == MOST_KEYS // 2 and keys.known(f"k{MOST_KEYS + 9}", 1) is not None
    assert list(again.items()) == list(keyed.items())


def test_of_processes_that_have_as_many_keys_the_oldest_key_goes() -> None:
    keyed = KeyedMessages()
    for number in range(MOST_KEYS):
        told = {"id": f"m{number}", "key": f"k{number}", "request": "r", "to": "/b", "by": f"/user/a{number}"}
        keyed.hears()["message.keyed"](Told(told, number, 1, b"", 0))
    assert [one.key for one in keyed.values()] == [
        f"k{number}" for number in range(MOST_KEYS // 2, MOST_KEYS)
    ]

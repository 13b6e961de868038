"""The outbox against the journal: what goes out when, while the disk and the links have their own pace."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from chain.journal.group import Group
from chain.journal.sequencer import Batch
from chain.ledger.ledger import Ticket
from kernel.bounds import Bounds
from kernel.clock import LoopClock
from kernel.message.messaging import Outgoing
from kernel.peer.mesh_port import NoMesh
from kernel.peer.outboxes import MOST_WAITING, DeliveryParts, Outboxes
from kernel.state.after_durable import AfterDurable
from mesh.identity.peers import Peer
from tests.kernel.turn.test_turns import on_twin
from tests.kernel.twins.disks import FullDisk
from tests.kernel.twins.kernel_twin import Twin
from tests.kernel.twins.mesh_twin import until

BOB = Peer("b", "weftos-" + "b" * 26)


class SayingMesh(NoMesh):
    """Keeps the numbers of the messages that were sent."""

    def __init__(self) -> None:
        super().__init__("weftos-" + "a" * 26)
        self.said: list[int] = []

    def send_op(self, origin: str, op: Mapping[str, Any]) -> None:
        self.said.append(op["n"])


async def _never(ticket: Ticket) -> Group:
    raise AssertionError("nobody waits for what is held up")


class Bench:
    """Outboxes over a real ledger, and a queue that can be held up as by a slow disk."""

    def __init__(self, twin: Twin) -> None:
        self.twin = twin
        self.mesh = SayingMesh()
        self.after = AfterDurable(twin.ledger)
        kernel = twin.kernel
        policy, clock = kernel.policy, LoopClock()
        self.boxes = Outboxes(
            DeliveryParts(kernel.recorder, kernel.messaging, Bounds(), clock, self.after, self.mesh, policy)
        )
        self.slow = Ticket(_never, Batch([], [], 0, [], 0))

    def write(self) -> tuple[int, Ticket]:
        """One message, maybe not on the disk yet: its number."""
        seq = self.twin.ledger.next_seq
        out = Outgoing("operator", "bob@b", "hi", "main", bytes(16), -1)
        unit = self.twin.kernel.recorder.unit()
        self.boxes.put(unit, out, "bob", BOB)
        return seq, self.twin.kernel.recorder.commit(unit, durable=True)

    async def send(self) -> int:
        """The same, on the disk when this returns."""
        seq, ticket = self.write()
        await ticket.durable()
        return seq

    def hold(self) -> None:
        self.after.do(lambda: None, self.slow)

    def release(self) -> None:
        self.slow.group = Group(0, 0, 0, b"", (), (), ())
        self.after.do(lambda: None)


def test_a_message_goes_out_once_it_is_on_the_disk_and_the_link_is_up(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        bench = Bench(twin)
        first = await bench.send()
        assert bench.mesh.said == []
        bench.boxes.up(BOB.origin)
        assert bench.mesh.said == [first]
        second = await bench.send()
        assert bench.mesh.said == [first, second]

    on_twin(tmp_path, body)


def test_what_waited_for_an_old_link_does_not_overtake_on_the_new_one(tmp_path: Path) -> None:
    """A receiver takes a higher number as the word that all lower ones are decided: one too early loses them."""

    async def body(twin: Twin) -> None:
        bench = Bench(twin)
        bench.boxes.up(BOB.origin)
        numbers = [await bench.send(), await bench.send()]
        bench.mesh.said.clear()
        bench.hold()
        numbers.append(await bench.send())
        bench.boxes.up(BOB.origin)
        assert bench.mesh.said == []
        bench.release()
        assert bench.mesh.said == numbers

    on_twin(tmp_path, body)


@pytest.mark.parametrize("cleared", [False, True])
def test_what_is_given_up_before_the_disk_takes_it_is_a_dead_letter_and_never_sent(
    tmp_path: Path, cleared: bool
) -> None:
    disk = FullDisk()

    async def body(twin: Twin) -> None:
        bench, state = Bench(twin), twin.kernel.state
        bench.boxes.up(BOB.origin)
        await twin.ledger.barrier()
        disk.full = True
        seq, _ = bench.write()
        await until(lambda: twin.ledger.refusal is not None)
        mail = state.in_transit.find(f"m{seq}")
        assert mail is not None
        if cleared:
            bench.boxes.clear(BOB.origin, "b is no peer")
        else:
            bench.boxes.withdraw(mail, "b is no peer")
        disk.full = False
        await until(lambda: mail.id in state.dead)
        assert state.dead[mail.id].why == "b is no peer"
        second = await bench.send()
        assert bench.mesh.said == [second]

    on_twin(tmp_path, body, disk=disk)


def test_what_went_out_and_is_given_up_twice_before_its_dead_letter_is_written_was_maybe_delivered(
    tmp_path: Path,
) -> None:
    disk = FullDisk()

    async def body(twin: Twin) -> None:
        bench, state = Bench(twin), twin.kernel.state
        bench.boxes.up(BOB.origin)
        mail = state.in_transit.find(f"m{await bench.send()}")
        assert mail is not None and bench.mesh.said == [mail.seq]
        disk.full = True
        bench.write()
        await until(lambda: twin.ledger.refusal is not None)
        for why in ("the link was cut", "the link was cut again"):
            bench.boxes.withdraw(mail, why)
        disk.full = False
        await until(lambda: mail.id in state.dead)
        assert state.dead[mail.id].why == "the link was cut (maybe delivered)"

    on_twin(tmp_path, body, disk=disk)


def test_nothing_goes_out_before_what_was_given_up_is_a_dead_letter_on_the_disk(tmp_path: Path) -> None:
    """What goes out says that all before it is settled: the other node forgets it, and a node that is killed asks."""
    disk = FullDisk()

    async def body(twin: Twin) -> None:
        bench, state = Bench(twin), twin.kernel.state
        bench.boxes.up(BOB.origin)
        first, second = await bench.send(), await bench.send()
        mail = state.in_transit.find(f"m{first}")
        assert mail is not None and bench.mesh.said == [first, second]
        disk.full = True
        third, _ = bench.write()
        await until(lambda: twin.ledger.refusal is not None)
        bench.boxes.down(BOB.origin)
        bench.boxes.withdraw(mail, "the link was cut")
        bench.boxes.up(BOB.origin)
        assert bench.mesh.said == [first, second]
        disk.full = False
        await until(lambda: bench.mesh.said == [first, second, second, third])
        assert mail.id in state.dead

    on_twin(tmp_path, body, disk=disk)


def test_links_that_come_and_go_while_the_disk_is_behind_queue_no_more_than_so_much(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        bench = Bench(twin)
        numbers = [await bench.send(), await bench.send()]
        bench.hold()
        for _ in range(MOST_WAITING):
            bench.boxes.up(BOB.origin)
            bench.boxes.down(BOB.origin)
        bench.boxes.up(BOB.origin)
        assert len(bench.after) <= MOST_WAITING + len(numbers)
        bench.release()
        await until(lambda: bench.mesh.said == numbers)
        numbers.append(await bench.send())
        assert bench.mesh.said == numbers

    on_twin(tmp_path, body)


def test_the_queue_keeps_its_order_behind_what_is_not_on_the_disk(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        bench = Bench(twin)
        done: list[int] = []
        bench.hold()
        for number in range(3):
            bench.after.do(partial(done.append, number))
        assert done == []
        assert len(bench.after) == 4
        bench.release()
        assert done == [0, 1, 2]

    on_twin(tmp_path, body)

"""Nodes for the tests of the mesh's core: fixed keys, and two sides of a session walked to where a test needs them."""

from __future__ import annotations

from collections.abc import Iterable

from chain.keys.keys import Keys
from mesh.bounds import ReassemblyBudget
from mesh.identity.identity import Identity, NoiseKey
from mesh.identity.tokens import JoinToken
from mesh.links.session import Event, Identified, Opened, Send, Session


def identity(number: int, name: str = "") -> Identity:
    """The same node for the same number, always."""
    keys = Keys(bytes([number] * 32), bytes([number + 100] * 32))
    return Identity(
        keys, NoiseKey.from_secret(bytes([number + 50] * 32)), name or f"n{number}", f"{number:016x}"
    )


ALICE, BOB, MALLORY = identity(1, "alice"), identity(2, "bob"), identity(3, "mallory")


def feed(session: Session, frames: Iterable[bytes]) -> list[Event]:
    """What ``session`` makes of ``frames``."""
    return [event for frame in frames for event in session.receive(frame)]


def met(initiator: Identity = ALICE, responder: Identity = BOB) -> tuple[Session, Session]:
    """Two sides where the initiator has yet to decide."""
    first, second = Session(True, initiator), Session(False, responder)
    (answer,) = second.receive(first.start())
    assert isinstance(answer, Send)
    (seen,) = first.receive(answer.frame)
    assert isinstance(seen, Identified)
    return first, second


def identified(
    initiator: Identity = ALICE, responder: Identity = BOB, token: JoinToken | None = None
) -> tuple[Session, Session, Identified]:
    """Two sides where the responder has yet to decide, and what it was told."""
    first, second = met(initiator, responder)
    (seen,) = feed(second, first.accept(token))
    assert isinstance(seen, Identified)
    return first, second, seen


def opened(
    initiator: Identity = ALICE, responder: Identity = BOB, budget: ReassemblyBudget | None = None
) -> tuple[Session, Session]:
    """Two sides of an open session; ``budget`` is the responder's."""
    first, second = Session(True, initiator), Session(False, responder, budget)
    (answer,) = second.receive(first.start())
    assert isinstance(answer, Send)
    first.receive(answer.frame)
    feed(second, first.accept())
    (event,) = feed(first, second.accept())
    assert isinstance(event, Opened)
    return first, second


def flipped(data: bytes, bit: int) -> bytes:
    """``data`` with one bit changed."""
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)

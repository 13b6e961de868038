"""What a message is between two kernels: the body of a ``mesh.delivery.delivery`` parcel. Pure.

Everything in a body is the other node's word. :func:`read_wire_message` takes exactly the shape written here; what the
words are worth is decided by the receiver: the sender is always ``ADDRESS@`` the origin that the session has proved,
and the rights are what is left after :func:`channel_rights`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import msgpack

from kernel.errors import AddressError, Invalid
from kernel.model.address import validate_address
from kernel.slices.mailboxes import Mail
from kernel.values import clean
from mesh.bounded import Unbounded, unpack
from mesh.identity.peers import is_origin

MAX_TARGET_CHARS = 1_100
MAX_SESSION_CHARS = 1_100
MAX_RIGHTS = 1_000
MAX_WAITING = 32
MAX_ID_CHARS = 64
OPERATOR = "operator"
_FIELDS: dict[str, type] = {
    "to": str, "sender": str, "text": str, "session": str, "wants_reply": bool, "ttl_us": int, "waiting": list,
    "trace": bytes, "answers": str, "status": str,
}  # fmt: skip
_MAX_VALUES = 1 + 2 * (len(_FIELDS) + 1) + MAX_WAITING + MAX_RIGHTS
_NEEDED = {"spawn_agent": "spawn"}


@dataclass(frozen=True, slots=True)
class WireMessage:
    """A message as the other kernel tells it. ``ttl_us``: how long its answer is of use, 0 for ever.

    ``rights`` None: its sender is a person, who has every right that the channel leaves.
    """

    to: str
    sender: str
    text: str
    session: str
    wants_reply: bool
    ttl_us: int
    waiting: tuple[str, ...]
    trace: bytes
    answers: str
    status: str
    rights: frozenset[str] | None


def write_wire_message(mail: Mail, now_us: int) -> bytes:
    """The body of an outgoing message. Durations go along, not times: the other node's clock may differ."""
    packed: bytes = msgpack.packb(
        {
            "to": mail.to.rpartition("@")[0],
            "sender": mail.sender,
            "text": mail.text,
            "session": mail.session,
            "wants_reply": mail.wants_reply,
            "ttl_us": max(1, mail.answer_by_us - now_us) if mail.answer_by_us else 0,
            "waiting": list(mail.waiting),
            "trace": mail.trace,
            "answers": mail.answers,
            "status": mail.status,
            "rights": None if mail.rights is None else sorted(mail.rights),
        }
    )
    return packed


def read_wire_message(body: bytes, limit_bytes: int) -> WireMessage:
    """The message in a parcel. Raises :class:`Invalid` for any other shape, or a text over ``limit_bytes``."""
    try:
        value = unpack(body, _MAX_VALUES)
    except Unbounded as error:
        raise Invalid(f"the message is no bounded msgpack: {error}") from error
    if not isinstance(value, dict) or value.keys() != {*_FIELDS, "rights"}:
        raise Invalid(f"the message does not have the fields {', '.join(_FIELDS)}, rights")
    for name, kind in _FIELDS.items():
        if type(value[name]) is not kind:
            raise Invalid(f"{name} of the message is {type(value[name]).__name__}, not {kind.__name__}")
    size = len(value["text"].encode("utf-8", "surrogatepass"))
    if size > limit_bytes:
        raise Invalid(f"message of {size} bytes, limit {limit_bytes}")
    wire = WireMessage(
        **{name: value[name] for name in _FIELDS if name != "waiting"},
        waiting=_waiting(value["waiting"]),
        rights=None if value["rights"] is None else frozenset(_texts("rights", value["rights"], MAX_RIGHTS)),
    )
    _check(wire)
    return wire


def _waiting(value: list[Any]) -> tuple[str, ...]:
    for asker in (found := _texts("waiting", value, MAX_WAITING)):
        address, _, origin = asker.rpartition("@")
        try:
            validate_address(address)
        except AddressError as error:
            raise Invalid(f"who waits for the answer is no process: {error}") from error
        if not is_origin(origin):
            raise Invalid(f"who waits for the answer is on no node: {origin!r:.80}")
    return found


def _check(wire: WireMessage) -> None:
    if not 0 < len(wire.to) <= MAX_TARGET_CHARS or "@" in wire.to:
        raise Invalid(
            "a message between nodes names a process of the node that it goes to; nothing is relayed"
        )
    if wire.sender != OPERATOR:
        try:
            validate_address(wire.sender)
        except AddressError as error:
            raise Invalid(f"the sender is no address: {error}") from error
    if len(wire.session) > MAX_SESSION_CHARS or not wire.session.isprintable():
        raise Invalid(f"the session is not at most {MAX_SESSION_CHARS} printable characters")
    if len(wire.trace) not in (0, 16):
        raise Invalid(f"the trace has {len(wire.trace)} bytes, not 16")
    if not 0 <= wire.ttl_us < 2**53:
        raise Invalid("the time that the answer is waited for is out of range")
    if len(wire.answers) > MAX_ID_CHARS or wire.status not in ("", "ok", "error"):
        raise Invalid("what the message answers, or with which status, is not readable")
    if bool(wire.answers) != bool(wire.status):
        raise Invalid("an answer has a status, and nothing else has one")


def _texts(name: str, value: Any, limit: int) -> tuple[str, ...]:
    if not isinstance(value, list) or len(value) > limit:
        raise Invalid(f"{name} of the message is not a list of at most {limit}")
    if not all(type(item) is str and len(item) <= MAX_TARGET_CHARS for item in value):
        raise Invalid(f"{name} of the message holds something that is no text")
    return tuple(map(clean, value))


def channel_rights(
    may: Collection[str], claimed: frozenset[str] | None, ceiling: frozenset[str]
) -> frozenset[str]:
    """What a peer's message may make its receiver use: of the peer's ``ceiling``, what is claimed and ``may`` leaves.

    The claim is the peer's word, and can only make it less; a person's is all of the ceiling. A tool that does what a
    peer needs a right for is not reached by a message either: without ``spawn`` no agent here starts another one on its
    behalf.
    """
    asked = ceiling if claimed is None else claimed & ceiling
    return frozenset(tool for tool in asked if _NEEDED.get(tool) is None or _NEEDED[tool] in may)

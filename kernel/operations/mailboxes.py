"""The mailbox of a process: how much may wait for it, and what becomes of a message for which there is no room."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, Literal, TypedDict, get_args

from kernel.operations.operation import Limit

DirectOverflow = Literal["back_pressure", "dead_letter"]
MOST = 2**53
Size = Annotated[int, Limit(ge=1, le=MOST, strict=True)]
_SIZES = ("messages", "bytes")


@dataclass(frozen=True, slots=True)
class Mailbox:
    """How many ``messages``, and ``bytes`` of them, may wait for a process, those of its turn with them; None: as many
    as the node allows, which is the most. ``overflow``, when a message finds no room: ``back_pressure`` refuses it, and
    its sender is told; ``dead_letter`` accepts it, and it is a dead letter at once. What is published the subscription
    decides.
    """

    _: KW_ONLY
    messages: Size | None = None
    bytes: Size | None = None
    overflow: DirectOverflow = "back_pressure"
    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012  # where it is part of another request

    def check(self) -> list[str]:
        """Every fault at once, empty when there is none."""
        sizes = ((name, getattr(self, name)) for name in _SIZES)
        faults = [
            f"mailbox: {name} is {size!r}, must be a whole number from 1 to 2**53"
            for name, size in sizes
            if size is not None and (type(size) is not int or not 0 < size <= MOST)
        ]
        if self.overflow not in get_args(DirectOverflow):
            known = " or ".join(get_args(DirectOverflow))
            faults.append(
                f"mailbox: overflow is {self.overflow!r}, must be {known}; drop_oldest is for topics"
            )
        return faults

    def told(self) -> dict[str, Any]:
        """As JSON has it."""
        sizes = {name: getattr(self, name) for name in _SIZES}
        said = {name: size for name, size in sizes.items() if size is not None}
        return {**said, "overflow": self.overflow}


class MailboxInForce(TypedDict):
    """The limits of a mailbox, and what becomes of a message beyond them."""

    messages: int
    bytes: int
    overflow: DirectOverflow


def read_mailbox(value: object) -> Mailbox:
    """What :meth:`Mailbox.told` gave, or somebody says it did. Raises ValueError that names the field."""
    names = (*_SIZES, "overflow")
    if not isinstance(value, Mapping):
        raise ValueError("a mailbox is a map")
    if unknown := sorted(set(map(str, value)) - set(names)):
        raise ValueError(f"mailbox: no field {unknown[0][:40]!r}; there are {', '.join(names)}")
    read = Mailbox(**value)
    if faults := read.check():
        raise ValueError("; ".join(faults))
    return read

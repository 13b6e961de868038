"""Names, addresses and what a person may type for a process.

An *address* is the stable place of a process: the path of names from the root supervisor
(``/user/boss/helper``), ``/`` itself being the root. A *name* is one step of it. PIDs are numbers, names
never are, so no two can be confused; ``@`` is kept for ``PID@node``.

    validate_name(name: str) -> str                     the name, or AddressError
    validate_address(address: str) -> str               the address, or AddressError
    join(parent: str, name: str) -> str                 checked, AddressError
    child_of(parent: str, name: str) -> str             the same where both were checked before
    parent(address: str) -> str                         AddressError for the root
    name_of(address: str) -> str                        last step, "/" for the root
    ancestors(address: str) -> tuple[str, ...]          nearest first, the root last
    is_below(address: str, ancestor: str) -> bool       strictly below
    parse_target(text: str) -> PidTarget | AddressTarget | NameTarget
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from kernel.errors import AddressError

ROOT = "/"
USER = "/user"
MAX_NAME = 64
MAX_DEPTH = 16
MAX_PID = 2**63 - 1

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
_PID = re.compile(r"0|[1-9][0-9]*")
_ASCII_DIGITS = re.compile(r"[0-9]+")


@dataclass(frozen=True, slots=True)
class PidTarget:
    """One incarnation."""

    pid: int


@dataclass(frozen=True, slots=True)
class AddressTarget:
    """A full path."""

    address: str


@dataclass(frozen=True, slots=True)
class NameTarget:
    """A name, or the beginning of one."""

    name: str


Target = PidTarget | AddressTarget | NameTarget


def _shown(text: str) -> str:
    return repr(text if len(text) <= 80 else text[:77] + "...")


def validate_name(name: str) -> str:
    """Return ``name``. It is also a directory name and a CLI argument, hence no leading dot or dash."""
    if len(name) > MAX_NAME:
        raise AddressError(f"name {_shown(name)} has {len(name)} characters, at most {MAX_NAME} are allowed")
    if not _NAME.fullmatch(name):
        raise AddressError(
            f"name {_shown(name)} is not allowed: use letters, digits, '.', '_' and '-', "
            "beginning with a letter, a digit or '_'"
        )
    if _ASCII_DIGITS.fullmatch(name):
        raise AddressError(f"name {_shown(name)} is all digits, which would be a PID: add a letter")
    return name


def validate_address(address: str) -> str:
    """Return ``address`` when it is canonical: ``/``, or ``/`` before each of at most 16 names."""
    if address == ROOT:
        return address
    if not address.startswith("/"):
        raise AddressError(f"address {_shown(address)} does not begin with '/'")
    if len(address) > MAX_DEPTH * (MAX_NAME + 1):
        limit = MAX_DEPTH * (MAX_NAME + 1)
        raise AddressError(f"address of {len(address)} characters, at most {limit} are allowed")
    names = address[1:].split("/")
    if len(names) > MAX_DEPTH:
        raise AddressError(f"address {_shown(address)} is {len(names)} names deep, limit {MAX_DEPTH}")
    for name in names:
        validate_name(name)
    return address


def join(parent: str, name: str) -> str:
    """The address of the child ``name`` of ``parent``."""
    validate_name(name)
    address = child_of(parent, name)
    if len(address) > MAX_DEPTH * (MAX_NAME + 1) or _depth(parent) >= MAX_DEPTH:
        validate_address(address)
    return address


@lru_cache(maxsize=1024)
def _depth(address: str) -> int:
    """How many names it has. Raises AddressError."""
    return validate_address(address).count("/") if address != ROOT else 0


def child_of(parent: str, name: str) -> str:
    """The same of an address and a name that are there."""
    return f"/{name}" if parent == ROOT else f"{parent}/{name}"


def parent(address: str) -> str:
    """The address of the supervisor above."""
    if address == ROOT:
        raise AddressError("the root supervisor has no parent")
    return address.rpartition("/")[0] or ROOT


def name_of(address: str) -> str:
    """The last step of ``address``."""
    return ROOT if address == ROOT else address.rpartition("/")[2]


def ancestors(address: str) -> tuple[str, ...]:
    """All supervisors above, nearest first; empty for the root."""
    return () if address == ROOT else _from(parent(address))


@lru_cache(maxsize=1024)
def _from(address: str) -> tuple[str, ...]:
    """An address and all supervisors above it: the same for thousands of children."""
    above = [address]
    while address != ROOT:
        address = parent(address)
        above.append(address)
    return tuple(above)


def is_below(address: str, ancestor: str) -> bool:
    """Whether ``address`` lies strictly below ``ancestor``."""
    return address != ancestor and address.startswith(ancestor if ancestor == ROOT else ancestor + "/")


@lru_cache(maxsize=1024)  # the same few are named again and again
def parse_target(text: str) -> Target:
    """What a person typed: a PID, a path, or a name (or the beginning of one)."""
    if _ASCII_DIGITS.fullmatch(text):
        if len(text) > 19 or not _PID.fullmatch(text) or int(text) > MAX_PID:
            raise AddressError(f"{_shown(text)} is not a PID: 0 to {MAX_PID}, without leading zeros")
        return PidTarget(int(text))
    if "@" in text:
        raise AddressError(f"{_shown(text)} names another node; this node reaches its own processes only")
    if text.startswith("/"):
        return AddressTarget(validate_address(text))
    return NameTarget(validate_name(text))

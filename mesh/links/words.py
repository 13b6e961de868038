"""The words of a session itself, under the flag CONTROL: small msgpack maps with an ``op``.

=========  =========================================================================================
enter      the initiator's first; with ``issuer``, ``id`` and ``proof`` when it joins by a token
welcome    the responder's yes
refused    its no; ``why`` is text
close      the end of an open session, from either side; ``why`` is text
=========  =========================================================================================

Pure. What cannot be read is :class:`SessionBroken`.
"""

from __future__ import annotations

from typing import Any

import msgpack

from mesh.bounded import Unbounded, unpack
from mesh.bounds import MAX_WHY_BYTES
from mesh.errors import SessionBroken
from mesh.identity.tokens import JoinClaim
from mesh.links.frames import CONTROL

_FLAG = bytes((CONTROL,))
_MAX_WORD_BYTES = 1024
_MAX_WORD_VALUES = 17


def write_word(value: dict[str, Any]) -> bytes:
    """The plaintext that carries ``value``."""
    packed: bytes = msgpack.packb(value)
    return _FLAG + packed


def read_word(plaintext: bytes) -> dict[str, Any]:
    """The word in ``plaintext``."""
    if plaintext[:1] == _FLAG:
        try:
            value = unpack(plaintext[1 : 1 + _MAX_WORD_BYTES], _MAX_WORD_VALUES)
        except Unbounded:
            value = None
        if isinstance(value, dict):
            return value
    raise SessionBroken(
        "control", f"{len(plaintext)} bytes are no message of a session that is open, nor its word"
    )


def claim_in(value: dict[str, Any]) -> JoinClaim | None:
    """The claim to a token in an ``enter``, None when it makes none."""
    if value == {"op": "enter"}:
        return None
    issuer, token_id, proof = value.get("issuer"), value.get("id"), value.get("proof")
    if len(value) != 4 or not (
        isinstance(issuer, str) and isinstance(token_id, str) and isinstance(proof, bytes)
    ):
        raise SessionBroken("enter", "a claim to a token is its issuer, its id and a proof")
    return JoinClaim(issuer, token_id, proof)


def why_in(value: dict[str, Any]) -> str:
    """The reason in a ``refused`` or ``close``: foreign text, cut; empty when it gives none."""
    why = value.get("why")
    return cut_text(why) if isinstance(why, str) else ""


def cut_text(text: str) -> str:
    """``text``, at most ``MAX_WHY_BYTES`` of it."""
    return text.encode(errors="replace")[:MAX_WHY_BYTES].decode(errors="ignore")

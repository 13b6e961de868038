"""Join tokens: how a node that is in nobody's allow list yet gets into one.

A token is text that a person carries from the issuer to the joiner, by whatever they trust::

    weftos-join-1.<issuer's origin>.<id, 16 hex digits>.<secret, 32 bytes in base32>

It names whom to believe (the joiner accepts no other issuer) and holds a secret that never crosses the wire. The
joiner proves it over the session it stands in, so that a proof seen elsewhere is worth nothing::

    HMAC-SHA256(secret, b"weftos/mesh/join/1\\n" || handshake hash || joiner's origin)

The issuer admits a token once, before it expires, unless revoked. Whose clock counts: the issuer's alone.
:class:`TokenBook` is the pure part; :class:`TokenStore` keeps it in ``<data>/mesh/tokens.json`` (0600).

Interface::

    JoinToken.parse(text) -> JoinToken                    .issuer .id .secret .text       raises TokenError
    JoinToken.claim(handshake_hash, origin) -> JoinClaim  what the joiner sends: issuer, id, proof
    TokenStore(mesh_dir, issuer_origin)
        .create(now_us, lifetime_s) -> JoinToken          .revoke(id, now_us)   .records() -> tuple[TokenRecord, ...]
        .redeem(claim, handshake_hash, origin, now_us)    marks it used, on disk when it returns; TokenRefused
"""

from __future__ import annotations

import base64
import binascii
import hmac
import json
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from mesh.bounds import DEFAULT_BOUNDS
from mesh.errors import MeshFileError, TokenError, TokenRefused
from mesh.files import locked, read_private, write_private

PREFIX = "weftos-join-1"
PROOF_CONTEXT = b"weftos/mesh/join/1\n"
TOKENS_FILE = "tokens.json"
SECRET_BYTES = 32
_ID = re.compile(r"[0-9a-f]{16}").fullmatch
_ORIGIN = re.compile(r"weftos-[a-z2-7]{26}").fullmatch


def proof_of(secret: bytes, handshake_hash: bytes, origin: str) -> bytes:
    """The proof that whoever is ``origin`` in the session of ``handshake_hash`` holds ``secret``."""
    return hmac.digest(secret, PROOF_CONTEXT + handshake_hash + origin.encode(), "sha256")


@dataclass(frozen=True, slots=True)
class JoinClaim:
    """What a joiner says of its token, in the session: everything but the secret."""

    issuer: str
    id: str
    proof: bytes


@dataclass(frozen=True, slots=True)
class JoinToken:
    """A token as its holder has it."""

    issuer: str
    id: str
    secret: bytes = field(repr=False)

    @property
    def text(self) -> str:
        encoded = base64.b32encode(self.secret).decode().rstrip("=").lower()
        return f"{PREFIX}.{self.issuer}.{self.id}.{encoded}"

    @classmethod
    def parse(cls, text: str) -> JoinToken:
        """Read a token; white space around it is ignored. Raises :class:`TokenError`, never with the secret."""
        parts = text.strip().split(".") if len(text) <= 1024 else []
        if len(parts) != 4 or parts[0] != PREFIX or not _ORIGIN(parts[1]) or not _ID(parts[2]):
            raise TokenError(f"not a join token ({PREFIX}.<origin>.<id>.<secret>): copy the whole line")
        padding = "=" * (-len(parts[3]) % 8)
        try:
            token = cls(parts[1], parts[2], base64.b32decode(parts[3].upper() + padding))
        except (binascii.Error, ValueError):
            token = cls(parts[1], parts[2], b"")
        if len(token.secret) != SECRET_BYTES or token.text != text.strip():
            raise TokenError(
                f"the secret of join token {parts[2]} was cut off or mistyped: copy the whole line"
            )
        return token

    def claim(self, handshake_hash: bytes, origin: str) -> JoinClaim:
        """What ``origin`` sends in the session of ``handshake_hash``."""
        return JoinClaim(self.issuer, self.id, proof_of(self.secret, handshake_hash, origin))


@dataclass(frozen=True, slots=True)
class TokenRecord:
    """A token as its issuer keeps it. Times are microseconds UTC, 0 for never."""

    id: str
    secret: str = field(repr=False)
    created_us: int
    expires_us: int
    revoked_us: int = 0
    used_us: int = 0
    used_by: str = ""

    def status(self, now_us: int) -> str:
        """used, revoked, expired or open."""
        if self.used_us:
            return "used"
        if self.revoked_us:
            return "revoked"
        return "expired" if now_us >= self.expires_us else "open"


@dataclass(frozen=True, slots=True)
class TokenBook:
    """Every token that one issuer has made and still remembers. Values in, a new book out."""

    issuer: str
    records: tuple[TokenRecord, ...] = ()
    limit: int = DEFAULT_BOUNDS.tokens

    def with_new(self, token: JoinToken, now_us: int, lifetime_s: int) -> TokenBook:
        """The book with ``token``; the oldest dead ones make room. Raises :class:`TokenError`."""
        if not 0 < lifetime_s <= DEFAULT_BOUNDS.token_lifetime_s:
            raise TokenError(
                f"a token lives 1 to {DEFAULT_BOUNDS.token_lifetime_s} seconds, not {lifetime_s}"
            )
        records = self.records
        while len(records) >= self.limit:
            dead = next((record for record in records if record.status(now_us) != "open"), None)
            if dead is None:
                raise TokenError(f"{len(records)} tokens are open, limit {self.limit}: revoke some first")
            records = tuple(record for record in records if record is not dead)
        made = TokenRecord(token.id, token.secret.hex(), now_us, now_us + lifetime_s * 1_000_000)
        return replace(self, records=(*records, made))

    def revoked(self, token_id: str, now_us: int) -> TokenBook:
        """The book with that token revoked. Raises :class:`TokenError` when there is none, or it was used."""
        record = next((record for record in self.records if record.id == token_id), None)
        if record is None:
            raise TokenError(f"no token {token_id!r:.40}: weftos token list shows them")
        if record.used_us:
            raise TokenError(f"token {token_id} was used by {record.used_by}: remove that peer instead")
        return self._with(replace(record, revoked_us=record.revoked_us or now_us))

    def redeemed(self, claim: JoinClaim, handshake_hash: bytes, origin: str, now_us: int) -> TokenBook:
        """The book with that token used by ``origin``.

        Raises :class:`TokenRefused`: issuer, unknown, proof, used, revoked, expired, in this order; so only who
        holds the secret learns a token's state.
        """
        if claim.issuer != self.issuer:
            raise TokenRefused("issuer", f"{claim.issuer!r:.80} made it, this node is {self.issuer}")
        record = next((record for record in self.records if record.id == claim.id), None)
        if record is None:
            raise TokenRefused("unknown", f"no token {claim.id!r:.40} was made here")
        expected = proof_of(bytes.fromhex(record.secret), handshake_hash, origin)
        if not hmac.compare_digest(expected, claim.proof):
            raise TokenRefused(
                "proof", f"the proof of token {record.id} is not of this session and this peer"
            )
        status = record.status(now_us)
        if status != "open":
            raise TokenRefused(status, f"token {record.id} is {status}: ask for a new one")
        return self._with(replace(record, used_us=now_us, used_by=origin))

    def _with(self, changed: TokenRecord) -> TokenBook:
        return replace(
            self, records=tuple(changed if record.id == changed.id else record for record in self.records)
        )


class TokenStore:
    """The book of ``<directory>/tokens.json``; every change is on disk when the call returns."""

    def __init__(self, directory: Path, issuer: str) -> None:
        self._directory = directory
        self._path = directory / TOKENS_FILE
        self._issuer = issuer

    def records(self) -> tuple[TokenRecord, ...]:
        """Every token remembered, oldest first. Raises :class:`MeshFileError`."""
        return self._read().records

    def create(self, now_us: int, lifetime_s: int) -> JoinToken:
        """Make a token; its text is shown this once. Raises :class:`TokenError`, :class:`MeshFileError`."""
        token = JoinToken(self._issuer, secrets.token_hex(8), secrets.token_bytes(SECRET_BYTES))
        with self._changing() as books:
            books.append(books[0].with_new(token, now_us, lifetime_s))
        return token

    def check_create(self, now_us: int, lifetime_s: int) -> None:
        """Raises what :meth:`create` would."""
        self._read().with_new(JoinToken(self._issuer, "", b""), now_us, lifetime_s)

    def check_revoke(self, token_id: str) -> None:
        """Raises what :meth:`revoke` would."""
        self._read().revoked(token_id, 0)

    def revoke(self, token_id: str, now_us: int) -> None:
        """Raises :class:`TokenError`, :class:`MeshFileError`."""
        with self._changing() as books:
            books.append(books[0].revoked(token_id, now_us))

    def redeem(self, claim: JoinClaim, handshake_hash: bytes, origin: str, now_us: int) -> None:
        """Use up the token. Raises :class:`TokenRefused`, :class:`MeshFileError`; then it is not used."""
        with self._changing() as books:
            books.append(books[0].redeemed(claim, handshake_hash, origin, now_us))

    @contextmanager
    def _changing(self) -> Iterator[list[TokenBook]]:
        with locked(self._directory):
            books = [self._read()]
            yield books
            text = json.dumps(
                {"version": 1, "tokens": [asdict(record) for record in books[-1].records]}, indent=1
            )
            write_private(self._path, text.encode() + b"\n")

    def _read(self) -> TokenBook:
        content = read_private(self._path)
        if content is None:
            return TokenBook(self._issuer)
        try:
            document = json.loads(content)
            if document["version"] != 1:
                raise ValueError(f"version {document['version']}")
            return TokenBook(self._issuer, tuple(_record(item) for item in document["tokens"]))
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise MeshFileError(
                f"{self._path} is damaged ({error}): restore it from a copy, or remove it; "
                "every token in it is void then"
            ) from error


def _record(item: dict[str, Any]) -> TokenRecord:
    record = TokenRecord(**item)
    for spec in fields(record):
        value = getattr(record, spec.name)
        if type(value) is not {"str": str, "int": int}[str(spec.type)]:
            raise TypeError(f"{spec.name} is {value!r:.40}")
    if not _ID(record.id) or len(bytes.fromhex(record.secret)) != SECRET_BYTES:
        raise ValueError("a token's id or secret has the wrong length")
    return record

"""What the hostile peer tries: each attempt returns how it was refused, or raises :class:`GotIn`."""

from __future__ import annotations

import secrets
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgpack

from chain.keys.keys import Keys
from mesh.identity.identity import Identity, NoiseKey, binding_text, check_hello
from mesh.identity.tokens import JoinClaim, JoinToken
from mesh.links.frames import END, HANDSHAKE, PART, PART_BYTES, SEALED, WHOLE, pack_frame
from tests.mesh.twins.core_nodes import flipped
from tests.mesh.twins.hostile_line import ZMTP_OPENING, GotIn, KeptOut, Line, Raw, Target, friend_in
from tests.mesh.twins.rogue import Rogue

MARK = "HOSTILE"
"""The op of every message that must not be delivered."""
MARKED = bytes([WHOLE]) + msgpack.packb({"op": MARK})


@dataclass(frozen=True)
class Attempt:
    """``needs``: friend, or the name of a token, which the target must have for it."""

    group: str
    name: str
    run: Callable[[Target], str]
    needs: str = ""


def stranger() -> Identity:
    keys = Keys(secrets.token_bytes(32), secrets.token_bytes(32))
    return Identity(keys, NoiseKey.from_secret(secrets.token_bytes(32)), "stranger", secrets.token_hex(8))


def hello_of(me: Identity, **changes: Any) -> bytes:
    packed: bytes = msgpack.packb(msgpack.unpackb(me.hello) | changes)
    return packed


def frames(*parts: bytes) -> Callable[[Target], str]:
    """A connection that sends these and nothing else."""

    def run(target: Target) -> str:
        with Line(target) as line:
            for part in parts:
                line.send(part)
            return line.fate()

    return run


def shaken(hello: Callable[[Target, Identity], bytes], *words: dict[str, Any]) -> Callable[[Target], str]:
    """A handshake with that hello, then these control words (enter unless given)."""

    def run(target: Target) -> str:
        with Line(target) as line:
            me = stranger()
            rogue = Rogue(me)
            line.send(rogue.first())
            second = line.receive()
            if second is None:
                return "cut off"
            line.send(rogue.third(second, hello(target, me)))
            for word in words or ({"op": "enter"},):
                line.send(rogue.control(word))
            line.send(rogue.sealed(MARKED))
            return line.fate(rogue)

    return run


def of_friend(target: Target, me: Identity) -> bytes:
    assert target.friend is not None
    return target.friend.hello


def claiming_friend(target: Target, me: Identity) -> bytes:
    """The friend's name, origin and keys, with a binding that the stranger signed itself."""
    assert target.friend is not None
    text = binding_text(target.friend.origin, me.noise.public, target.friend.keys.mldsa.text)
    return hello_of(target.friend, binding=me.keys.sign_ed25519(text))


def listeners_own(target: Target) -> str:
    with Line(target) as line:
        rogue = Rogue(stranger())
        line.send(rogue.first())
        second = line.receive()
        assert second is not None
        hello = rogue.noise.read_message(second[10:])
        check_hello(hello, rogue.noise.remote_static)
        line.send(pack_frame(HANDSHAKE, 2, rogue.noise.write_message(hello)))
        return line.fate(rogue)


def other_prologue(target: Target) -> str:
    with Line(target) as line:
        rogue = Rogue(stranger(), b"weftos/mesh/0\n")
        line.send(rogue.first())
        line.receive()
        line.send(pack_frame(HANDSHAKE, 2, secrets.token_bytes(2900)))
        return line.fate()


def early_message(target: Target) -> str:
    with Line(target) as line:
        rogue = Rogue(target.reborn_friend)
        line.send(rogue.first())
        second = line.receive()
        assert second is not None
        line.send(rogue.third(second))
        line.send(rogue.sealed(MARKED))
        return line.fate(rogue)


def recorded(target: Target) -> str:
    with Line(target) as line, Line(target) as again:
        rogue = Rogue(target.reborn_friend)
        record = [rogue.first()]
        line.send(record[0])
        second = line.receive()
        assert second is not None
        record += [rogue.third(second), rogue.control({"op": "enter"}), rogue.sealed(MARKED)]
        for frame in record:
            again.send(frame)
        return again.fate()


def hijacked(routing_id: bytes) -> Callable[[Target], str]:
    """The friend's next frame, over another connection; with its ZeroMQ routing id, or without.

    The friend's own session must not notice: it sends that frame itself when the other has arrived, and is still heard
    in the end. Meanwhile it gives signs of life, as an honest peer does; without them a node ends its link by itself.
    """

    def run(target: Target) -> str:
        with Line(target, routing_id) as line:
            rogue = friend_in(target, line)
            frame = said(rogue)
            with Line(target, routing_id) as other:
                other.send(frame)
                line.receive()  # a sign of life of the listener: it has read what came before
                line.send(frame)
                fate = other.fate(meanwhile=lambda: line.send(rogue.sealed(bytes([WHOLE]))))
            if not line.still_open():
                raise KeptOut("the friend's own session ended with it")
            return fate

    return run


def claim(name: str, make: Callable[[Target, JoinToken, Rogue], JoinClaim]) -> Callable[[Target], str]:
    """A stranger's handshake, and a claim to the target's token of that name."""

    def run(target: Target) -> str:
        token = target.tokens.get(name) or JoinToken(
            target.origin, secrets.token_hex(8), secrets.token_bytes(32)
        )
        with Line(target) as line:
            rogue = Rogue(stranger())
            line.send(rogue.first())
            second = line.receive()
            if second is None:
                return "cut off"
            line.send(rogue.third(second))
            made = make(target, token, rogue)
            line.send(
                rogue.control({"op": "enter", "issuer": made.issuer, "id": made.id, "proof": made.proof})
            )
            return line.fate(rogue)

    return run


def honest(target: Target, token: JoinToken, rogue: Rogue) -> JoinClaim:
    return token.claim(rogue.noise.handshake_hash, rogue.me.origin)


def other_session(target: Target, token: JoinToken, rogue: Rogue) -> JoinClaim:
    return token.claim(secrets.token_bytes(32), rogue.me.origin)


def other_node(target: Target, token: JoinToken, rogue: Rogue) -> JoinClaim:
    return token.claim(rogue.noise.handshake_hash, stranger().origin)


def wrong_secret(target: Target, token: JoinToken, rogue: Rogue) -> JoinClaim:
    return honest(target, JoinToken(token.issuer, token.id, secrets.token_bytes(32)), rogue)


def other_issuer(target: Target, token: JoinToken, rogue: Rogue) -> JoinClaim:
    return honest(target, JoinToken(stranger().origin, token.id, token.secret), rogue)


def gone_bad(act: Callable[[Rogue], list[bytes]]) -> Callable[[Target], str]:
    """The friend, let in, then these frames."""

    def run(target: Target) -> str:
        with Line(target) as line:
            rogue = friend_in(target, line)
            for frame in act(rogue):
                line.send(frame)
            return line.fate(rogue)

    return run


def said(rogue: Rogue, op: str = "ack") -> bytes:
    """An op; by default one that a real node takes without a word, where an unknown one ends the link."""
    return rogue.sealed(bytes([WHOLE]) + msgpack.packb({"op": op, "n": 0, "id": "m0"}))


def reordered(rogue: Rogue) -> list[bytes]:
    return [said(rogue, MARK), said(rogue, MARK)][::-1]


def part(rogue: Rogue, size: int = PART_BYTES) -> bytes:
    return rogue.sealed(bytes([PART]) + bytes(size))


def many_parts(target: Target) -> str:
    with Line(target) as line:
        rogue = friend_in(target, line)
        line.send(said(rogue, MARK), b"and more")
        return line.fate(rogue)


def raw(*parts: bytes) -> Callable[[Target], str]:
    """A TCP connection that sends these and nothing else."""

    def run(target: Target) -> str:
        with Raw(target) as connection:
            for data in parts:
                connection.write(data)
            return connection.fate()

    return run


def endless_parts(friend: bool) -> Callable[[Target], str]:
    """A ZeroMQ message whose parts have no end: 256 MiB of them, which must not all be taken."""
    one = b"\x03" + struct.pack(">Q", 2**15) + bytes(2**15)

    def run(target: Target) -> str:
        with Raw(target) as connection:
            connection.open()
            if friend:
                friend_in(target, connection)
            if all(connection.write(one) for _ in range(2**13)):
                raise GotIn("the listener took 256 MiB")
            return connection.fate()

    return run


def half_open(target: Target) -> str:
    lines: list[Line] = []
    try:
        for _ in range(200):  # each speaks at once: those that come later push it out
            lines.append(Line(target))
            lines[-1].send(Rogue(stranger()).first())
        fates = {line.fate() for line in lines}
    finally:
        for line in lines:
            line.__exit__()
    return ", ".join(sorted(fates)) + " (all 200)"


STRANGER = (
    Attempt("stranger", "a node in nobody's list", shaken(lambda target, me: me.hello)),
    Attempt("stranger", "a friend's hello over one's own key", shaken(of_friend), "friend"),
    Attempt("stranger", "a friend's origin, signed by oneself", shaken(claiming_friend), "friend"),
    Attempt("stranger", "the listener's own hello, sent back", listeners_own),
    Attempt("stranger", "no hello", shaken(lambda target, me: b"")),
    Attempt("stranger", "a hello of nested maps", shaken(lambda target, me: b"\x81\xa1a" * 1500)),
    Attempt("stranger", "a hello of 60,000 bytes", shaken(lambda target, me: bytes(60_000))),
    Attempt("stranger", "a hello of version 2", shaken(lambda target, me: hello_of(me, v=2))),
    Attempt("stranger", "welcome, said by oneself", shaken(lambda target, me: me.hello, {"op": "welcome"})),
    Attempt("stranger", "a message without a handshake", frames(pack_frame(SEALED, 0, bytes(64)))),
    Attempt("stranger", "protocol version 2", frames(b"\x02" + pack_frame(HANDSHAKE, 0, secrets.token_bytes(32))[1:])),
    Attempt("stranger", "another prologue", other_prologue),
    Attempt("stranger", "an ephemeral key of zeros", frames(pack_frame(HANDSHAKE, 0, bytes(32)))),
    Attempt("stranger", "an ephemeral key of low order", frames(pack_frame(HANDSHAKE, 0, b"\x01" + bytes(31)))),
    Attempt("stranger", "a first message of 31 bytes", frames(pack_frame(HANDSHAKE, 0, bytes(31)))),
    Attempt("stranger", "a first message of 65,535 bytes", frames(pack_frame(HANDSHAKE, 0, bytes(65_535)))),
    Attempt("stranger", "an empty frame", frames(b"")),
    Attempt("stranger", "garbage", frames(secrets.token_bytes(500))),
    Attempt("stranger", "garbage in the handshake", frames(
        pack_frame(HANDSHAKE, 0, b"\x09" + bytes(31)), pack_frame(HANDSHAKE, 2, secrets.token_bytes(2900)))),
    Attempt("stranger", "a friend's recorded handshake", recorded, "friend"),
    Attempt("stranger", "a friend's frame, another connection", hijacked(b""), "friend"),
    Attempt("stranger", "the same with the friend's routing id", hijacked(b"friend-1"), "friend"),
)  # fmt: skip

TOKENS = (
    Attempt("token", "one that was never made", claim("", honest)),
    Attempt("token", "a guessed secret", claim("open", wrong_secret), "open"),
    Attempt("token", "a proof from another session", claim("open", other_session), "open"),
    Attempt("token", "a proof for another node", claim("open", other_node), "open"),
    Attempt("token", "another issuer's", claim("open", other_issuer), "open"),
    Attempt("token", "an expired one", claim("expired", honest), "expired"),
    Attempt("token", "a used one", claim("used", honest), "used"),
    Attempt("token", "a revoked one", claim("revoked", honest), "revoked"),
    Attempt(
        "token", "a claim without a proof", shaken(lambda target, me: me.hello, {"op": "enter", "id": "x"})
    ),
)

FRIEND = tuple(
    Attempt("friend gone bad", name, run, "friend")
    for name, run in (
        ("a message before enter", early_message),
        ("a frame twice", gone_bad(lambda rogue: [said(rogue)] * 2)),
        ("frames in another order", gone_bad(reordered)),
        ("a frame left out", gone_bad(lambda rogue: [said(rogue, MARK), said(rogue, MARK)][1:])),
        ("a bit changed", gone_bad(lambda rogue: [flipped(said(rogue, MARK), 100)])),
        ("a frame cut short", gone_bad(lambda rogue: [said(rogue, MARK)[:-1]])),
        ("a frame made longer", gone_bad(lambda rogue: [said(rogue, MARK) + b"x"])),
        ("a lie about its number", gone_bad(lambda rogue: [rogue.sealed(MARKED, 2**64 - 1)])),
        ("a second handshake within", gone_bad(lambda rogue: [Rogue(stranger()).first()])),
        ("an unknown control word", gone_bad(lambda rogue: [rogue.control({"op": "promote"})])),
        ("an unknown flag", gone_bad(lambda rogue: [rogue.sealed(b"\x2a" + MARKED)])),
        ("a part of one byte", gone_bad(lambda rogue: [part(rogue, 1)])),
        ("an end without a beginning", gone_bad(lambda rogue: [rogue.sealed(bytes([END]) + MARKED)])),
        ("17 MiB without an end", gone_bad(lambda rogue: [part(rogue) for _ in range(272)])),
        ("a frame of 1 MiB", gone_bad(lambda rogue: [said(rogue, MARK) + bytes(2**20)])),
        ("a ZeroMQ message of two parts", many_parts),
        ("a message that is no op", gone_bad(lambda rogue: [rogue.sealed(bytes([WHOLE]) + b"\xc1")])),
        ("an op without a name", gone_bad(lambda rogue: [rogue.sealed(bytes([WHOLE]) + b"\x80")])),
        (
            "an op nested 10,000 deep",
            gone_bad(lambda rogue: [rogue.sealed(bytes([WHOLE]) + b"\x91" * 10_000)]),
        ),
    )
)

FLOODS = (
    Attempt("flood", "a connection that says nothing", raw(b"")),
    Attempt("flood", "ZeroMQ's greeting, then nothing", raw(ZMTP_OPENING)),
    Attempt("flood", "half a handshake, then nothing", frames(Rogue(stranger()).first())),
    Attempt("flood", "an HTTP request", raw(b"GET / HTTP/1.1\r\nHost: node\r\n\r\n")),
    Attempt("flood", "a ZeroMQ frame of 2^62 bytes", raw(ZMTP_OPENING, b"\x02" + struct.pack(">Q", 2**62))),
    Attempt("flood", "a ZeroMQ message of endless parts", endless_parts(friend=False)),
    Attempt("flood", "the same from a friend", endless_parts(friend=True), "friend"),
    Attempt("flood", "200 handshakes begun at once", half_open),
)  # fmt: skip

ATTEMPTS = (*STRANGER, *TOKENS, *FRIEND, *FLOODS)


def friend_gets_in(target: Target) -> str:
    """The proof that the listener listens: everything done right is welcomed and answered with silence."""
    with Line(target) as line:
        rogue = friend_in(target, line)
        line.send(said(rogue))
        return "welcomed"


def open_token_gets_in(target: Target) -> str:
    """The token that the attempts above could not use admits who holds it, once."""
    me = stranger()
    with Line(target) as line:
        rogue = Rogue(me)
        line.send(rogue.first())
        second = line.receive()
        assert second is not None
        line.send(rogue.third(second))
        made = honest(target, target.tokens["open"], rogue)
        line.send(rogue.control({"op": "enter", "issuer": made.issuer, "id": made.id, "proof": made.proof}))
        verdict = line.receive()
        assert verdict is not None
        word = msgpack.unpackb(rogue.opened(verdict)[1:])
        return "welcomed" if word == {"op": "welcome"} else f"kept out: {word}"

"""Join tokens: each way in which one does not admit, whose clock counts, and the file."""

from __future__ import annotations

import hmac
import json
import stat
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh.errors import MeshFileError, TokenError, TokenRefused
from mesh.identity.tokens import JoinClaim, JoinToken, TokenBook, TokenStore, proof_of
from tests.mesh.twins.core_nodes import ALICE, BOB, MALLORY, flipped

NOW = 1_700_000_000_000_000
SECOND = 1_000_000
HOUR = 3600 * SECOND
TOKEN = JoinToken(BOB.origin, "00112233445566ff", bytes(range(32)))
HASH, OTHER_HASH = bytes(32), bytes([1] * 32)
BOOK = TokenBook(BOB.origin).with_new(TOKEN, NOW, 600)


def refusal(
    book: TokenBook, claim: JoinClaim, now_us: int, digest: bytes = HASH, origin: str = ALICE.origin
) -> str:
    with pytest.raises(TokenRefused) as caught:
        book.redeemed(claim, digest, origin, now_us)
    return caught.value.rule


def test_a_token_admits_once() -> None:
    claim = TOKEN.claim(HASH, ALICE.origin)
    used = BOOK.redeemed(claim, HASH, ALICE.origin, NOW + SECOND)
    (record,) = used.records
    assert (record.status(NOW + SECOND), record.used_by) == ("used", ALICE.origin)
    assert refusal(used, claim, NOW + SECOND) == "used"
    again = TOKEN.claim(OTHER_HASH, MALLORY.origin)
    assert refusal(used, again, NOW + SECOND, OTHER_HASH, MALLORY.origin) == "used"


def test_a_stolen_proof_admits_nobody_else_and_in_no_other_session() -> None:
    claim = TOKEN.claim(HASH, ALICE.origin)
    assert refusal(BOOK, claim, NOW, HASH, MALLORY.origin) == "proof"
    assert refusal(BOOK, claim, NOW, OTHER_HASH, ALICE.origin) == "proof"


def test_a_proof_under_another_context_is_refused() -> None:
    bare = hmac.digest(TOKEN.secret, HASH + ALICE.origin.encode(), "sha256")
    assert refusal(BOOK, JoinClaim(BOB.origin, TOKEN.id, bare), NOW) == "proof"
    assert proof_of(TOKEN.secret, HASH, ALICE.origin) != bare


@pytest.mark.parametrize("proof", [b"", bytes(31), bytes(32), bytes(33), bytes(10_000)])
def test_a_proof_made_up_is_refused(proof: bytes) -> None:
    assert refusal(BOOK, JoinClaim(BOB.origin, TOKEN.id, proof), NOW) == "proof"


@given(st.integers(0, 255))
def test_a_proof_with_any_bit_changed_is_refused(bit: int) -> None:
    claim = TOKEN.claim(HASH, ALICE.origin)
    assert refusal(BOOK, JoinClaim(claim.issuer, claim.id, flipped(claim.proof, bit)), NOW) == "proof"


def test_a_token_of_another_issuer_is_refused() -> None:
    foreign = JoinToken(MALLORY.origin, TOKEN.id, TOKEN.secret)
    assert refusal(BOOK, foreign.claim(HASH, ALICE.origin), NOW) == "issuer"


def test_an_unknown_token_is_refused_and_its_id_is_shown_harmless() -> None:
    claim = JoinClaim(BOB.origin, "\x1b]0;x\x07", bytes(32))
    with pytest.raises(TokenRefused, match="unknown") as caught:
        BOOK.redeemed(claim, HASH, ALICE.origin, NOW)
    assert str(caught.value).isprintable()


def test_a_revoked_token_is_refused() -> None:
    revoked = BOOK.revoked(TOKEN.id, NOW)
    assert refusal(revoked, TOKEN.claim(HASH, ALICE.origin), NOW) == "revoked"
    with pytest.raises(TokenError, match="no token"):
        BOOK.revoked("ffffffffffffffff", NOW)
    used = BOOK.redeemed(TOKEN.claim(HASH, ALICE.origin), HASH, ALICE.origin, NOW)
    with pytest.raises(TokenError, match="remove that peer instead"):
        used.revoked(TOKEN.id, NOW)


def test_a_token_ends_when_it_says() -> None:
    claim = TOKEN.claim(HASH, ALICE.origin)
    assert BOOK.redeemed(claim, HASH, ALICE.origin, NOW + 600 * SECOND - 1).records[0].used_us
    assert refusal(BOOK, claim, NOW + 600 * SECOND) == "expired"


def test_the_issuers_clock_alone_counts() -> None:
    """The text and the claim hold no time, so that a joiner whose clock is an hour off joins all the same."""
    claim = TOKEN.claim(HASH, ALICE.origin)
    assert set(vars(JoinClaim)["__slots__"]) == {"issuer", "id", "proof"}
    assert refusal(BOOK, claim, NOW + HOUR) == "expired"
    early = BOOK.redeemed(claim, HASH, ALICE.origin, NOW - HOUR)
    assert refusal(early, claim, NOW - HOUR) == "used"
    assert refusal(early, claim, NOW + HOUR) == "used"


def test_only_the_holder_of_the_secret_learns_a_tokens_state() -> None:
    guess = JoinClaim(BOB.origin, TOKEN.id, bytes(32))
    for book in (BOOK, BOOK.revoked(TOKEN.id, NOW)):
        assert refusal(book, guess, NOW + HOUR) == "proof"


def test_text_and_token_are_each_others() -> None:
    assert JoinToken.parse(TOKEN.text + "\n") == TOKEN
    assert TOKEN.text.startswith(f"weftos-join-1.{BOB.origin}.00112233445566ff.")
    assert "secret" not in repr(TOKEN) and TOKEN.secret.hex() not in repr(TOKEN)


@pytest.mark.parametrize(
    "text",
    ["", "weftos-join-1", TOKEN.text[:-1], TOKEN.text + "a", TOKEN.text.upper(), TOKEN.text.replace("-1.", "-2."),
     TOKEN.text.replace(BOB.origin, "weftos-x"), TOKEN.text.rsplit(".", 1)[0] + ".", TOKEN.text + "." + "a" * 9999,
     TOKEN.text.rsplit(".", 1)[0] + "." + "!" * 52],
    ids=range(10),
)  # fmt: skip
def test_a_text_that_is_no_token_is_refused_without_telling_its_secret(text: str) -> None:
    with pytest.raises(TokenError, match="copy the whole line") as caught:
        JoinToken.parse(text)
    assert TOKEN.text.rsplit(".", 1)[1][:20] not in str(caught.value)


@pytest.mark.parametrize("lifetime_s", [0, -1, 8 * 24 * 3600])
def test_a_lifetime_out_of_range_is_refused(lifetime_s: int) -> None:
    with pytest.raises(TokenError, match="a token lives 1 to 604800 seconds"):
        TokenBook(BOB.origin).with_new(TOKEN, NOW, lifetime_s)


def test_a_full_book_forgets_the_oldest_dead_token_and_no_open_one() -> None:
    def token(number: int) -> JoinToken:
        return JoinToken(BOB.origin, f"{number:016x}", bytes(32))

    book = TokenBook(BOB.origin, limit=3)
    for number, lifetime_s in enumerate((600, 1, 1)):
        book = book.with_new(token(number), NOW, lifetime_s)
    book = book.with_new(token(3), NOW + 2 * SECOND, 600)
    assert [int(record.id, 16) for record in book.records] == [0, 2, 3]
    book = book.with_new(token(4), NOW + 2 * SECOND, 600)
    with pytest.raises(TokenError, match="3 tokens are open, limit 3"):
        book.with_new(token(5), NOW + 2 * SECOND, 600)


def test_the_store_keeps_what_happened(tmp_path: Path) -> None:
    store = TokenStore(tmp_path / "mesh", BOB.origin)
    assert store.records() == ()
    token, other = store.create(NOW, 600), store.create(NOW, 600)
    store.redeem(token.claim(HASH, ALICE.origin), HASH, ALICE.origin, NOW)
    store.revoke(other.id, NOW)
    again = TokenStore(tmp_path / "mesh", BOB.origin)
    assert [record.status(NOW) for record in again.records()] == ["used", "revoked"]
    with pytest.raises(TokenRefused, match="used"):
        again.redeem(token.claim(OTHER_HASH, ALICE.origin), OTHER_HASH, ALICE.origin, NOW)
    file = tmp_path / "mesh" / "tokens.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert sorted(path.name for path in file.parent.iterdir()) == ["lock", "tokens.json"]


def test_a_refusal_changes_nothing_on_disk(tmp_path: Path) -> None:
    store = TokenStore(tmp_path / "mesh", BOB.origin)
    token = store.create(NOW, 600)
    before = (tmp_path / "mesh" / "tokens.json").read_bytes()
    with pytest.raises(TokenRefused):
        store.redeem(token.claim(HASH, ALICE.origin), HASH, MALLORY.origin, NOW)
    assert (tmp_path / "mesh" / "tokens.json").read_bytes() == before


def test_one_token_redeemed_by_many_at_once_admits_one(tmp_path: Path) -> None:
    token = TokenStore(tmp_path / "mesh", BOB.origin).create(NOW, 600)
    outcomes: list[str] = []
    ready = threading.Barrier(8)

    def join(number: int) -> None:
        digest = bytes([number] * 32)
        ready.wait()
        try:
            store = TokenStore(tmp_path / "mesh", BOB.origin)
            store.redeem(token.claim(digest, ALICE.origin), digest, ALICE.origin, NOW)
            outcomes.append("in")
        except TokenRefused as refused:
            outcomes.append(refused.rule)

    threads = [threading.Thread(target=join, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["in"] + ["used"] * 7


@pytest.mark.parametrize(
    "content",
    ["", "{}", "[]", '{"version": 2, "tokens": []}', '{"version": 1, "tokens": [{}]}', "[" * 100_000,
     json.dumps({"version": 1, "tokens": [{"id": "x", "secret": "", "created_us": 0, "expires_us": 0}]}),
     json.dumps({"version": 1, "tokens": [{"id": "0" * 16, "secret": "00" * 32, "created_us": "0", "expires_us": 1}]})],
    ids=range(8),
)  # fmt: skip
def test_a_damaged_file_is_said_and_not_replaced(tmp_path: Path, content: str) -> None:
    store = TokenStore(tmp_path / "mesh", BOB.origin)
    (tmp_path / "mesh").mkdir()
    file = tmp_path / "mesh" / "tokens.json"
    file.write_text(content)
    file.chmod(0o600)
    with pytest.raises(MeshFileError, match="is damaged"):
        store.create(NOW, 600)
    assert file.read_text() == content
    file.chmod(0o640)
    with pytest.raises(MeshFileError, match="mode 0640"):
        store.records()

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.errors import Conflict, MailboxFull
from kernel.mailbox import Mailbox


def box(messages: int = 3, size_bytes: int = 100, signals: int = 2) -> Mailbox[str]:
    return Mailbox(messages, size_bytes, signals)


def test_order_is_kept_and_signals_overtake() -> None:
    mail = box()
    mail.push("1", "first", 10)
    mail.push("2", "second", 10)
    mail.push("3", "cancel", 10, "signal")
    mail.push("4", "exit", 10, "signal")
    assert mail.peek() == "cancel"
    assert list(mail) == ["cancel", "exit", "first", "second"]
    assert [mail.pop() for _ in range(5)] == ["cancel", "exit", "first", "second", None]
    assert mail.peek() is None


def test_the_number_of_messages_is_bounded() -> None:
    mail = box(messages=2)
    mail.push("1", "a", 1)
    mail.push("2", "b", 1)
    with pytest.raises(MailboxFull, match="holds 2 messages, limit 2: try again later") as caught:
        mail.push("3", "c", 1)
    assert caught.value.code == "busy"
    mail.pop()
    mail.push("3", "c", 1)
    assert list(mail) == ["b", "c"]


def test_the_bytes_are_bounded_and_come_free_again() -> None:
    mail = box(size_bytes=100)
    mail.push("1", "a", 60)
    with pytest.raises(MailboxFull, match="holds 60 bytes and the message has 41, limit 100"):
        mail.push("2", "b", 41)
    mail.push("2", "b", 40)
    assert mail.size_bytes == 100
    mail.remove("1")
    assert mail.size_bytes == 40
    mail.push("3", "c", 60)


def test_a_full_mailbox_still_takes_signals_up_to_their_own_bound() -> None:
    mail = box(messages=1, signals=2)
    mail.push("1", "a", 100)
    mail.push("s1", "cancel", 1, "signal")
    mail.push("s2", "exit", 1, "signal")
    with pytest.raises(MailboxFull, match="holds 2 signals, limit 2"):
        mail.push("s3", "exit", 1, "signal")
    assert len(mail) == 3


@pytest.mark.parametrize("lane", ["normal", "signal"])
def test_a_message_is_taken_once(lane: str) -> None:
    mail = box()
    mail.push("1", "a", 1)
    with pytest.raises(Conflict, match="message 1 is in this mailbox already"):
        mail.push("1", "b", 1, lane)  # type: ignore[arg-type]
    assert list(mail) == ["a"]


def test_remove_takes_from_the_middle_and_from_both_lanes() -> None:
    mail = box()
    for ident in ("1", "2", "3"):
        mail.push(ident, ident, 1)
    mail.push("s", "signal", 1, "signal")
    assert (mail.remove("2"), mail.remove("s"), mail.remove("2")) == ("2", "signal", None)
    assert "2" not in mail and "1" in mail
    assert list(mail) == ["1", "3"]


def test_drain_gives_all_and_leaves_it_usable() -> None:
    mail = box(messages=1)
    mail.push("1", "a", 100)
    mail.push("s", "signal", 1, "signal")
    assert mail.drain() == ["signal", "a"]
    assert (len(mail), mail.size_bytes, mail.pop()) == (0, 0, None)
    mail.push("1", "a", 100)


operations = st.lists(
    st.one_of(
        st.tuples(
            st.just("push"), st.integers(0, 9), st.integers(0, 40), st.sampled_from(["normal", "signal"])
        ),
        st.tuples(st.just("remove"), st.integers(0, 9)),
        st.tuples(st.just("pop")),
    )
)


@given(operations)
def test_against_a_plain_list(script: list[tuple[str, ...]]) -> None:
    mail = box(messages=4, size_bytes=100, signals=2)
    model: list[tuple[str, int, str]] = []
    for operation in script:
        normal = [row for row in model if row[2] == "normal"]
        signals = [row for row in model if row[2] == "signal"]
        ordered = signals + normal
        match operation:
            case ("push", ident, size, lane):
                fits = (
                    len(signals) < 2
                    if lane == "signal"
                    else len(normal) < 4 and sum(row[1] for row in normal) + size <= 100
                )
                if fits and all(row[0] != str(ident) for row in model):
                    mail.push(str(ident), str(ident), size, lane)
                    model.append((str(ident), size, lane))
                else:
                    with pytest.raises((MailboxFull, Conflict)):
                        mail.push(str(ident), str(ident), size, lane)
            case ("remove", ident):
                assert (mail.remove(str(ident)) is not None) == any(row[0] == str(ident) for row in model)
                model = [row for row in model if row[0] != str(ident)]
            case _:
                assert mail.pop() == (ordered[0][0] if ordered else None)
                model = [row for row in model if row not in ordered[:1]]
        assert len(mail) == len(model)
        assert mail.size_bytes == sum(row[1] for row in model if row[2] == "normal")

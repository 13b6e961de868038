import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.errors import AddressError
from kernel.model.address import (
    MAX_DEPTH,
    MAX_NAME,
    MAX_PID,
    ROOT,
    AddressTarget,
    NameTarget,
    PidTarget,
    Target,
    ancestors,
    is_below,
    join,
    name_of,
    parent,
    parse_target,
    validate_address,
    validate_name,
)

names = st.from_regex(r"[A-Za-z_][A-Za-z0-9._-]{0,63}", fullmatch=True)


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "_x", "9lives", "x" * MAX_NAME, "1.5", "0x10"])
def test_a_good_name_is_returned(name: str) -> None:
    assert validate_name(name) == name


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("", "is not allowed: use letters"),
        ("42", "is all digits, which would be a PID: add a letter"),
        ("a@b", "is not allowed"),
        ("a/b", "is not allowed"),
        (".", "is not allowed"),
        ("..", "is not allowed"),
        (".hidden", "beginning with a letter, a digit or '_'"),
        ("-rf", "beginning with a letter, a digit or '_'"),
        ("a b", "is not allowed"),
        ("a\n", "is not allowed"),
        ("a\x00", "is not allowed"),
        ("ä", "is not allowed"),
        ("٤٢", "is not allowed"),
        ("x" * (MAX_NAME + 1), "has 65 characters, at most 64 are allowed"),
    ],
)
def test_a_bad_name_is_refused_in_words(name: str, words: str) -> None:
    with pytest.raises(AddressError, match=words) as caught:
        validate_name(name)
    assert caught.value.code == "invalid"


def test_an_error_never_carries_the_whole_of_a_long_name_or_a_raw_control_character() -> None:
    with pytest.raises(AddressError) as caught:
        validate_name("\x1b[31m" + "x" * 10_000)
    assert len(str(caught.value)) < 200
    assert "\x1b" not in str(caught.value)


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("", "does not begin with '/'"),
        ("user", "does not begin with '/'"),
        ("/user/", "name '' is not allowed"),
        ("//user", "name '' is not allowed"),
        ("/user/../kernel", r"name '\.\.' is not allowed"),
        ("/user/7", "all digits"),
        ("/a" * (MAX_DEPTH + 1), "17 names deep, limit 16"),
        ("/" + "a/" * 5000, "address of 10001 characters, at most 1040"),
    ],
)
def test_a_bad_address_is_refused_in_words(address: str, words: str) -> None:
    with pytest.raises(AddressError, match=words):
        validate_address(address)


def test_the_deepest_and_longest_address_is_allowed_and_has_no_children() -> None:
    address = ("/" + "x" * MAX_NAME) * MAX_DEPTH
    assert validate_address(address) == address
    with pytest.raises(AddressError, match=r"17 names deep|1040"):
        join(address, "y")


@given(st.lists(names, min_size=1, max_size=MAX_DEPTH))
def test_join_parent_and_name_are_each_others_inverse(path: list[str]) -> None:
    address = ROOT
    above: list[str] = []
    for name in path:
        above.insert(0, address)
        child = join(address, name)
        assert (parent(child), name_of(child)) == (address, name)
        assert is_below(child, address) and not is_below(address, child) and not is_below(child, child)
        address = child
    assert ancestors(address) == tuple(above)
    assert all(is_below(address, one) for one in above)
    assert validate_address(address) == address


def test_a_name_that_begins_alike_is_not_below() -> None:
    assert not is_below("/user2/a", "/user")
    assert is_below("/user/a", "/user")


def test_the_root_has_no_parent() -> None:
    assert (ancestors(ROOT), name_of(ROOT)) == ((), "/")
    with pytest.raises(AddressError, match="the root supervisor has no parent"):
        parent(ROOT)


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("42", PidTarget(42)),
        ("0", PidTarget(0)),
        (str(MAX_PID), PidTarget(MAX_PID)),
        ("/user/boss", AddressTarget("/user/boss")),
        ("/", AddressTarget("/")),
        ("boss", NameTarget("boss")),
        ("4u", NameTarget("4u")),
    ],
)
def test_a_target_is_a_pid_an_address_or_a_name(text: str, target: Target) -> None:
    assert parse_target(text) == target


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("007", "not a PID: 0 to"),
        (str(MAX_PID + 1), "not a PID: 0 to"),
        ("9" * 5000, "not a PID: 0 to"),
        ("", "is not allowed"),
        ("-1", "is not allowed"),
        ("42@n2", "names another node"),
        ("/user/", "is not allowed"),
        ("a b", "is not allowed"),
    ],
)
def test_a_bad_target_is_refused_in_words(text: str, words: str) -> None:
    with pytest.raises(AddressError, match=words):
        parse_target(text)

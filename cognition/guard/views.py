"""A text as it stands, and as it may be meant: letters that look alike, digits for letters, letters apart, encodings.

Each way of reading is tried once and is no longer than the text, so that what is made of a text stays in proportion to
it. Line breaks stay where they are; what was decoded is told with the line it stood on. Pure.
"""

from __future__ import annotations

import base64
import binascii
import codecs
import html
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import unquote

from cognition.guard.fold import INVISIBLE, fold
from cognition.guard.lexicon import PHRASES, WORDS, bits_of

DECODED_BYTES = 8_192
"""What is decoded of one text, over all its parts."""
DECODED_PARTS = 64


@dataclass(frozen=True, slots=True)
class View:
    """``how`` the text was read: ``plain``, or what it was disguised by. ``line``: where its first line stands."""

    how: str
    text: str
    line: int = 0

    @property
    def disguised(self) -> bool:
        return self.how != "plain"


LOOK_ALIKES = str.maketrans(
    "абвгеёзіїјкмнорстухцчшьѕԁԛԝһӏԍѵ" + "αβγεζηικνορτυχωϲϳ" + "ɑɡɩ",
    "abbreeziijkmhopctyxuywbsdqwhlgv" + "abyezniknoptuxwcj" + "agi",
)
_MIXED = re.compile("[a-z][\u0370-\u052f\u0250-\u02af]|[\u0370-\u052f\u0250-\u02af][a-z]")
_LEET_WORD = re.compile(r"(?<![a-z0-9@$!|+])[a-z0-9@$!|+]*(?:[a-z][0-9@$|]|[0-9@$|][a-z])[a-z0-9@$!|+]*")
_LEET_SIGN = re.compile(r"[0-9@$|][a-z]")
_LEET = str.maketrans("013457@$!|+89", "oieastasiltbg")
_LEET_L = str.maketrans("013457@$!|+89", "oleastaslltbg")
_APART = re.compile(r"(?<![^\W_])[^\W\d_](?:(?:[ \t]{1,8}|[.\-*_|/,~·]{1,2})[^\W\d_](?![^\W_])){3,}")
_ONE_APART = re.compile(r"([ \t.\-*_|/,~·]+)")
_BASE64 = re.compile(r"(?<![A-Za-z0-9+/=_-])[A-Za-z0-9+/_-]{16,}={0,2}")
_HEX = re.compile(r"(?<![0-9A-Za-z])(?:(?:0x|\\x)?[0-9a-fA-F]{2}[ ,:]?){8,}(?![0-9A-Za-z])")
_BINARY = re.compile(r"(?<![0-9])(?:[01]{8}[ ,]?){6,}(?![0-9])")
_PERCENT = re.compile(r"(?:%[0-9A-Fa-f]{2}[A-Za-z0-9.+_-]{0,3}){5,}")
_ESCAPES = re.compile(r"(?:\\u[0-9A-Fa-f]{4}){4,}")
_RUN, _PIECES = 16, 6
_JOINTS = re.compile(r"""["'][\s,;+&.]{0,8}(?:(?:and |then )?\w{1,8} ?[=:] ?)?(?:\+ ?)?["']""")
_TAGS = re.compile("[\U000e0020-\U000e007e]{8,}")
_INSIDE = re.compile("[^\\W\\d_][\u00ad\u200b-\u200f\u2060-\u2064\ufeff][^\\W\\d_]")


def views(text: str) -> Iterator[View]:
    """Every way of reading ``text``, the plain one first."""
    plain = fold(text)
    yield View("plain", plain)
    if not text.isascii():
        if len(_INSIDE.findall(text)) > 2:
            yield View("invisible", plain)
        if _MIXED.search(plain):
            yield from _changed("look_alikes", plain, plain.translate(LOOK_ALIKES))
        if text != plain and any("\uff21" <= each <= "\uff5a" for each in text):
            yield View("wide", plain)
        for found in _TAGS.finditer(text):
            hidden = "".join(chr(ord(each) - 0xE0000) for each in found[0])
            yield View("tags", fold(hidden), text.count("\n", 0, found.start()))
    seen = text if text.isascii() else INVISIBLE.sub("", text)
    words = plain.split()
    if _may_stand_apart(words) and _APART.search(plain):
        yield from _changed("letters_apart", plain, _APART.sub(_together, plain))
    if len(_LEET_SIGN.findall(plain)) > 1:
        yield from _changed("digits_for_letters", plain, _LEET_WORD.sub(_unleet, plain))
    if '"' in plain or "'" in plain:
        yield from _changed("parts", plain, _JOINTS.sub("", plain))
    yield from _decoded(seen, plain, words)


def _changed(how: str, plain: str, other: str) -> Iterator[View]:
    """The lines that read otherwise, each run of them for itself."""
    run: list[str] = []
    number = 0
    for number, (line, read) in enumerate(zip(plain.split("\n"), other.split("\n"), strict=False)):
        if line != read:
            run.append(read)
        elif run:
            yield View(how, "\n".join(run), number - len(run))
            run = []
    if run:
        yield View(how, "\n".join(run), number + 1 - len(run))


def _may_stand_apart(words: list[str]) -> bool:
    """Whether there are letters alone beside each other, or a word with a mark at each second place."""
    alone = 0
    for word in words:
        size = len(word)
        alone = alone + 1 if size == 1 else 0
        if alone > 3 or (size > 6 and not word[1].isalnum() and not word[3].isalnum()):
            return True
    return False


def _decoded(text: str, plain: str, words: list[str]) -> Iterator[View]:
    left, parts = DECODED_BYTES, DECODED_PARTS
    for how, run, at in _runs(text, words):
        said = _READERS[how](run[: left * 4])[:left]
        if said and _is_words(said):
            left -= len(said)
            parts -= 1
            yield View(how, fold(said), text.count("\n", 0, at))
        if left <= 0 or parts <= 0:
            break
    if "&#" in text:
        yield View("entities", fold(html.unescape(text)))
    if "rot13" in plain or "rot 13" in plain or "caesar" in plain:
        yield View("rot13", codecs.encode(plain, "rot13"))
    if "revers" in plain or "backward" in plain or "rückwärts" in plain or "mirror" in plain:
        yield View("reversed", "\n".join(line[::-1] for line in plain.split("\n")))


def _runs(text: str, words: list[str]) -> Iterator[tuple[str, str, int]]:
    """What may be encoded: how, the run of characters and where it stands."""
    at = 0
    sizes = list(map(len, words))
    for word in text.split() if max(sizes, default=0) >= _RUN else ():
        if len(word) >= _RUN:
            at = text.index(word, at)
            for how, pattern in _IN_A_WORD:
                yield from ((how, found[0], at + found.start()) for found in pattern.finditer(word))
            at += len(word)
    if sum(map(_PAIRS.__contains__, words)) >= _PIECES or "0x" in text:
        yield from (("hex", found[0], found.start()) for found in _HEX.finditer(text))
    if sizes.count(8) >= _PIECES and sum(len(word) == 8 and word.isdigit() for word in words) >= _PIECES:
        yield from (("binary", found[0], found.start()) for found in _BINARY.finditer(text))


def _base64(run: str) -> str:
    run = run.rstrip("=").replace("-", "+").replace("_", "/")
    run = run[: len(run) - (len(run) % 4 == 1)]
    try:
        return base64.b64decode(run + "=" * (-len(run) % 4)).decode("utf-8")
    except (binascii.Error, UnicodeDecodeError):
        return ""


def _hex(run: str) -> str:
    digits = re.sub(r"0x|\\x|[ ,:]", "", run)
    try:
        return bytes.fromhex(digits[: len(digits) // 2 * 2]).decode("utf-8")
    except ValueError:
        return ""


def _binary(run: str) -> str:
    digits = run.replace(" ", "").replace(",", "")
    return "".join(chr(int(digits[at : at + 8], 2)) for at in range(0, len(digits) - 7, 8))


def _escapes(run: str) -> str:
    return "".join(chr(int(each, 16)) for each in run.split("\\u")[1:])


_READERS: Mapping[str, Callable[[str], str]] = {
    "base64": _base64,
    "hex": _hex,
    "binary": _binary,
    "percent": unquote,
    "escapes": _escapes,
}
_IN_A_WORD = (("base64", _BASE64), ("hex", _HEX), ("percent", _PERCENT), ("escapes", _ESCAPES))
_PAIRS = frozenset(f"{each:02x}" for each in range(256))


def _is_words(text: str) -> bool:
    """Whether it may be read: few of its characters are neither letters nor blanks."""
    return sum(each.isalpha() or each.isspace() for each in text) * 5 >= len(text) * 4


def _unleet(found: re.Match[str]) -> str:
    word = found[0]
    first = word.translate(_LEET)
    core = first.strip("i")
    if bits_of(first) or first in PHRASES:
        return first
    other = word.translate(_LEET_L)
    if bits_of(other) or other in PHRASES:
        return other
    return core if bits_of(core) else first


def _together(found: re.Match[str]) -> str:
    """Letters that stand apart as words: a wider gap ends one; where all are as wide, the words known here do."""
    pieces = _ONE_APART.split(found[0])
    letters, gaps = pieces[::2], pieces[1::2]
    least = min(len(each) for each in gaps)
    words = [letters[0]]
    for letter, gap in zip(letters[1:], gaps, strict=True):
        if len(gap) > least:
            words.append(letter)
        else:
            words[-1] += letter
    return " ".join(_known_words(word) for word in words)


_LONGEST = 14


def _known_words(run: str) -> str:
    """A run of letters cut where words known here end; the longest first."""
    if len(run) <= 3 or bits_of(run):
        return run
    made, at, rest = [], 0, ""
    while at < len(run):
        for end in range(min(len(run), at + _LONGEST), at + 2, -1):
            if run[at:end] in WORDS:
                made += [rest, run[at:end]] if rest else [run[at:end]]
                at, rest = end, ""
                break
        else:
            rest += run[at]
            at += 1
    return " ".join([*made, rest] if rest else made)

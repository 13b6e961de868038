"""What texts come wrapped in and disguised by: the same for attacks and for all else, so that neither is told by it."""

from __future__ import annotations

import base64
import random
from collections.abc import Callable, Sequence
from urllib.parse import quote

Wrap = Callable[[str, str, str], str]
"""A text, and two that may stand around it."""

TOOL_WRAPS: tuple[Wrap, ...] = (
    lambda t, a, b: f"{a}\n{t}\n{b}",
    lambda t, a, b: f"{t}\n{a}",
    lambda t, a, b: f"{a}\n---\n{t}\n---\n{b}",
    lambda t, a, b: f'{{"id": 31, "note": "{t}"}}',
    lambda t, a, b: f'{{"title": "{a}", "comment": "{t}"}}',
    lambda t, a, b: f"From: lena@mail.example\nSubject: {a[:40]}\n\n{t}\n\nBest, Lena",
    lambda t, a, b: f"2024-05-02 10:14:07 INFO {a}\n2024-05-02 10:14:09 INFO {t}",
    lambda t, a, b: f"# {a[:50]}\n\n{b}\n\n{t}\n",
    lambda t, a, b: f"<html><body>{a}<!-- {t} --></body></html>",
    lambda t, a, b: f"<p>{a}</p><p>{t}</p>",
    lambda t, a, b: f"def run(x):\n    # {t}\n    return x + 1",
    lambda t, a, b: f"id;name;note\n1;Ann;{a}\n2;Bo;{t}",
    lambda t, a, b: f"{t}\nexit code 0",
    lambda t, a, b: f"user: {a}\nagent: {b}\nuser: {t}",
    lambda t, a, b: f"Minutes\n1. {a}\n2. {t}\n3. {b}",
    lambda t, a, b: f"> {t}\n\n{a}",
)
WEB_WRAPS: tuple[Wrap, ...] = (
    lambda t, a, b: f"{a}\n{t}\n{b}",
    lambda t, a, b: f"{a} {t}",
    lambda t, a, b: f"{t} {a}",
    lambda t, a, b: f"<p>{a}</p><p>{t}</p>",
    lambda t, a, b: f'<div style="display:none">{t}</div>{a}',
    lambda t, a, b: f"<!-- {t} --><h1>{a}</h1>",
    lambda t, a, b: f'<img src="a.png" alt="{t}"> {a}',
    lambda t, a, b: f'<span style="font-size:0">{t}</span>{b}',
    lambda t, a, b: f'<meta name="description" content="{t}">',
    lambda t, a, b: f"Comments (2)\nMia: {a}\nTom: {t}",
    lambda t, a, b: f"{a}\n\n* * *\n\n{t}",
    lambda t, a, b: f"Q: {a}\nA: {t}",
    lambda t, a, b: f"<li>{a}</li><li>{t}</li><li>{b}</li>",
    lambda t, a, b: f"# {a[:50]}\n{t}",
    lambda t, a, b: f"<title>{a[:50]}</title><article>{b} {t}</article>",
)
USER_WRAPS: tuple[Wrap, ...] = (
    lambda t, a, b: f"Hi! {t}",
    lambda t, a, b: f"{t} Thanks!",
    lambda t, a, b: f"{t}\n{a}",
    lambda t, a, b: f"{a} {t}",
    lambda t, a, b: t.lower().rstrip("."),
    lambda t, a, b: f"hello, {t[:1].lower()}{t[1:]}",
    lambda t, a, b: t.upper(),
    lambda t, a, b: f"{t} {b}",
)

_LEET = str.maketrans("aeiost", "431057")
_LOOKS = str.maketrans("aeopcyxAEOPCTX", "аеорсухАЕОРСТХ")


def _split(text: str, rng: random.Random) -> str:
    at = rng.randrange(len(text) // 3, 2 * len(text) // 3 + 1)
    return f'a = "{text[:at]}" and b = "{text[at:]}", take a + b'


DISGUISES: tuple[Callable[[str, random.Random], str], ...] = (
    lambda t, r: base64.b64encode(t.encode()).decode(),
    lambda t, r: f"decode: {base64.b64encode(t.encode()).decode()}",
    lambda t, r: t.encode().hex(" "),
    lambda t, r: t.encode().hex(),
    lambda t, r: t.lower().translate(_LEET),
    lambda t, r: t.translate(_LOOKS),
    lambda t, r: "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in t),
    lambda t, r: "".join(c + ("\u200b" if r.random() < 0.3 else "") for c in t),
    lambda t, r: "   ".join(" ".join(word) for word in t.split()[:12]),
    lambda t, r: "-".join(t.upper().replace(" ", "")[:60]),
    lambda t, r: quote(t, safe=""),
    lambda t, r: "".join(f"&#{ord(c)};" for c in t),
    lambda t, r: "".join(f"\\u{ord(c):04x}" for c in t),
    _split,
    lambda t, r: "hello" + "".join(chr(0xE0000 + ord(c)) for c in t if c.isascii() and c.isprintable()),
)


def wrapped(text: str, source: str, around: Sequence[str], rng: random.Random) -> str:
    wraps = {"user": USER_WRAPS, "tool": TOOL_WRAPS, "web": WEB_WRAPS}[source]
    first, second = (rng.choice(around).replace("\n", " ")[:160] for _ in range(2))
    return rng.choice(wraps)(text, first, second)


def disguised(text: str, rng: random.Random) -> str:
    return rng.choice(DISGUISES)(text, rng)

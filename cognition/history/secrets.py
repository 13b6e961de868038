"""Secrets in what tools gave, taken out before a model is shown it again. Pure.

Known forms only, each of which a person would call a secret at sight: keys with the mark of their maker, private keys,
tokens of three parts, passwords in addresses, and values beside a name such as ``password`` or ``api_key``. What is
taken out is named in its place. It is no proof that none is left.
"""

from __future__ import annotations

import re

_FORMS: tuple[tuple[str, re.Pattern[str]], ...] = (
    (
        "private key",
        re.compile(
            r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----[^-]{0,20000}(?:-----END [A-Z ]{0,40}PRIVATE KEY-----)?"
        ),
    ),
    ("key", re.compile(r"\b(?:sk|rk|pk)-(?:[a-z]{2,12}-)?[A-Za-z0-9_-]{20,200}")),
    ("key", re.compile(r"\b(?:sk|rk)_(?:live|test)_[A-Za-z0-9]{16,200}")),
    ("key", re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b")),
    ("key", re.compile(r"\bAIza[A-Za-z0-9_-]{35}\b")),
    ("token", re.compile(r"\bgh[pousr]_[A-Za-z0-9]{30,255}\b")),
    ("token", re.compile(r"\bgithub_pat_[A-Za-z0-9_]{40,255}\b")),
    ("token", re.compile(r"\bglpat-[A-Za-z0-9_-]{20,100}")),
    ("token", re.compile(r"\bxox[abeoprs]-[A-Za-z0-9-]{10,250}")),
    ("token", re.compile(r"\beyJ[A-Za-z0-9_-]{10,2000}\.eyJ[A-Za-z0-9_-]{10,4000}\.[A-Za-z0-9_-]{10,2000}")),
    ("token", re.compile(r"(?<=[Bb]earer )[A-Za-z0-9._~+/=-]{16,2000}")),
    ("password", re.compile(r"(?<=://)[^\s:/@]{1,100}:[^\s/@]{1,200}(?=@)")),
    (
        "secret",
        re.compile(
            r"""(?ix)
            (?<![a-z0-9])
            (?P<before>(?:[a-z0-9]{1,20}[_-])?(?:password|passwd|passphrase|api[_-]?key|secret[_-]?key|access[_-]?key
                |client[_-]?secret|auth[_-]?token|access[_-]?token|refresh[_-]?token|private[_-]?key)
            ["']?\s{0,3}[:=]\s{0,3}["']?)
            (?P<value>[^\s"',;&}]{6,500})
            """
        ),
    ),
)

_PERHAPS = re.compile(
    r"private key|[srp]k[-_]|akia|asia|aiza|gh[pousr]_|github_pat_|glpat-|xox|eyj|bearer |://"
    r"|passw|passphrase|api[_-]?key|[tyst][_-]?(?:key|secret|token)",
    re.IGNORECASE,
)
"""What a text has that has any of these: most have none, and are looked through once."""


def redacted(text: str) -> str:
    """The text with each secret that is known by its form named instead of shown."""
    if _PERHAPS.search(text) is None:
        return text
    for name, form in _FORMS:
        text = form.sub(lambda found, name=name: _instead(found, name), text)  # type: ignore[misc]
    return text


def _instead(found: re.Match[str], name: str) -> str:
    before = found.groupdict().get("before") or ""
    return f"{before}[redacted {name}]"

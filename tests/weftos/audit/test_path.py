"""Who set off what a path of entries leads to, in words."""

from __future__ import annotations

import pytest

from weftos.audit.path import sender_of
from weftos.json_object import Json

EXIT: Json = {"seq": 9, "kind": "process.exited", "body": {"address": "/user/ada"}}


@pytest.mark.parametrize(
    ("kind", "body", "words"),
    [
        ("operator.command", {"uid": 7}, "commanded by operator, user 7 of this machine (entry 8)"),
        ("peer.command", {"name": "b", "principal": "peer:weftos-b"}, "commanded by b, peer:weftos-b"),
    ],
)
def test_an_exit_that_was_ordered_leads_to_who_ordered_it(kind: str, body: Json, words: str) -> None:
    assert sender_of([{"seq": 8, "kind": kind, "body": body}, EXIT]) == words


def test_an_exit_that_nobody_ordered_leads_to_nobody() -> None:
    assert sender_of([EXIT]) == ""

"""State that somebody without a key has changed is refused by the node and named by the auditor."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chain.twins.forged_state import forgeries, judge, make_story, on_a_copy, seed_of

FEW = 60


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    data = tmp_path_factory.mktemp("story")
    return data, make_story(data)


def test_what_nobody_has_touched_is_bound(story: tuple[Path, list[str]], tmp_path: Path) -> None:
    data, keys = story
    verdict = judge(data, keys)
    assert (verdict.refused, verdict.named) == ("", "")


def test_forged_state_of_every_kind_is_refused_and_named(
    story: tuple[Path, list[str]], tmp_path: Path
) -> None:
    """One of each kind, and some more; ``make prove PART=forged`` tries them all."""
    data, keys = story
    every = sorted(forgeries(data), key=seed_of)
    kinds = {forgery.kind: forgery for forgery in every}
    for forgery in [*kinds.values(), *every[:FEW]]:
        verdict = on_a_copy(data, tmp_path / "copy", forgery, keys)
        assert verdict.refused and verdict.named, (forgery.kind, forgery.name, verdict)
    assert len(kinds) > 40

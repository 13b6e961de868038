"""The command that counts the published answers says what it found, and fails on a difference."""

import pytest

from tests.chain import vectors
from tests.chain.vectors import Row

beside = pytest.mark.skipif(
    not vectors.VECTORS.is_dir(),
    reason="the public vectors are not beside this checkout (../shared/vectors)",
)


@beside
def test_all_published_answers_come_out_as_published(capsys: pytest.CaptureFixture[str]) -> None:
    assert vectors.main("--quick") == 0
    out = capsys.readouterr().out.splitlines()
    assert out[-1] == "all as expected"
    assert len(out) == 17
    assert any(
        "Wycheproof ML-DSA-65: invalid, refused" in line and line.split()[-3:] == ["131"] * 3 for line in out
    )


@beside
def test_a_difference_makes_it_fail(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for wrong in (
        Row("a case missing", 3, 2, 2),
        Row("a case too many", 3, 4, 4),
        Row("a wrong answer", 3, 3, 2),
    ):
        monkeypatch.setattr(vectors, "rows", lambda flips, wrong=wrong: iter([Row("good", 1, 1, 1), wrong]))
        assert vectors.main() == 1
        out = capsys.readouterr().out.splitlines()
        assert "DIFFERS" in out[2] and "DIFFERS" not in out[1]
        assert out[-1] == "NOT as expected"

"""How the demo shows what a command printed."""

from __future__ import annotations

from pathlib import Path

import pytest

from weftos.demo.story import INDENT, Story


@pytest.mark.parametrize(("columns", "width"), [("80", 80), ("20", 60), ("500", 112)])
def test_what_a_command_printed_is_folded_and_never_cut(
    columns: str,
    width: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    words = [f"word-{number}" for number in range(60)]
    long = tmp_path / "long.py"
    long.write_text(f"print({' '.join(words)!r})\n")
    Story("local", ("n1",)).script(long, shown="")
    _, _, printed = capsys.readouterr().out.partition("long.py")
    assert printed.split() == words
    lines = printed.splitlines()[1:]
    assert max(map(len, lines)) <= width and all(line.startswith(" " * INDENT) for line in lines)

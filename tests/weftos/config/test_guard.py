"""``[guard]`` in the file: what is refused, and that agents are told it."""

from __future__ import annotations

from pathlib import Path

import pytest

from weftos.config.config import Config, ConfigError, validate_file


def of(tmp_path: Path, text: str) -> Config:
    path = tmp_path / "weftos.toml"
    path.write_text(text)
    return validate_file(path)


def test_what_is_said_is_kept(tmp_path: Path) -> None:
    settings = of(tmp_path, '[guard]\ninjection = "strip"\nthreshold = 1.5\n').settings
    assert settings.guard == {"injection": "strip", "threshold": 1.5}


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ('injection = "warn"', "guard.injection must be off, flag, strip or refuse"),
        ("threshold = 0", "guard.threshold must be at least 0.001"),
        ("threshold = 1e7", "guard.threshold must be at most 1000000"),
        ("injections = 1", "unknown key guard.injections; the nearest is guard.injection"),
    ],
)
def test_what_means_nothing_is_refused(tmp_path: Path, said: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        of(tmp_path, f"[guard]\n{said}\n")

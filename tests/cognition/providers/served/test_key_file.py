"""A key that lies in a file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cognition.errors import ConfigurationError
from cognition.providers.base import Source
from cognition.providers.openai_compatible import build
from cognition.providers.served.key_file import MOST_BYTES, read_key_file

KEY = "sk-very-secret-0123456789"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "key"
    path.write_text(KEY + "\n")
    path.chmod(0o600)
    return path


def fault(path: Path | str) -> str:
    with pytest.raises(ConfigurationError) as caught:
        read_key_file("p", str(path))
    assert KEY not in str(caught.value)
    return str(caught.value)


def test_it_is_read_where_it_is_this_users_alone(file: Path) -> None:
    assert read_key_file("p", str(file)).strip() == KEY
    file.chmod(0o400)
    assert read_key_file("p", str(file)).strip() == KEY


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o700, 0o601])
def test_a_file_that_others_may_open_is_not(file: Path, mode: int) -> None:
    file.chmod(mode)
    assert f"has mode {mode:04o}, must be 0600: chmod 600" in fault(file)


def test_nor_is_what_is_no_file_of_this_user(file: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(file)
    assert "cannot be read" in fault(link)
    assert "cannot be read: No such file" in fault(tmp_path / "none")
    assert "is no file" in fault(tmp_path)
    assert "is no absolute path" in fault("key")
    os.mkfifo(tmp_path / "pipe", 0o600)
    assert "is no file" in fault(tmp_path / "pipe")
    if os.getuid() == 0:
        os.chown(file, 12345, 12345)
        assert "belongs to user 12345" in fault(file)


def test_what_can_be_no_key_is_refused_unseen(file: Path) -> None:
    file.write_bytes(b"\xff" + KEY.encode())
    assert "characters that a key cannot have" in fault(file)
    file.write_bytes(b"x" * (MOST_BYTES + 1))
    assert f"limit {MOST_BYTES}" in fault(file)
    file.write_text(" \n")
    table = {"base_url": "http://127.0.0.1:9/v1", "api_key_file": str(file)}
    with pytest.raises(ConfigurationError, match="holds no key"):
        build(Source("p", table, {}))

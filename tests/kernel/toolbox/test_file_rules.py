"""Which files of a workspace the file tools use, whatever the path is written like."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kernel.toolbox.files import UNKNOWN, FileError, file_version, list_directory, read_file, write_file
from kernel.toolbox.rules.file_rules import FileRules

SRC = FileRules(allowed=(("src", "notes.txt", "doc/*.md"),))
NO_KEYS = FileRules(denied=("*.key", ".git", "secret/**", "ﬁle"))


@pytest.mark.parametrize(
    ("rules", "path", "allowed"),
    [
        (SRC, "src/a/b.py", True),
        (SRC, "src", True),
        (SRC, "./src//a", True),
        (SRC, "notes.txt", True),
        (SRC, "doc/a.md", True),
        (SRC, "doc/a.txt", False),
        (SRC, "doc", False),
        (SRC, "srcs/a", False),
        (SRC, "SRC/a", False),
        (SRC, "other", False),
        (NO_KEYS, "a/my.key", False),
        (NO_KEYS, "a/MY.KEY", False),
        (NO_KEYS, "a.key/b", False),
        (NO_KEYS, ".GIT/config", False),
        (NO_KEYS, "a/.git", False),
        (NO_KEYS, "secret/a/b", False),
        (NO_KEYS, "Secret/a", False),
        (NO_KEYS, "a/secret/b", True),
        (NO_KEYS, "file", False),
        (NO_KEYS, "my.keys", True),
        (FileRules(denied=("build/",)), "a/build/x", False),
        (FileRules(denied=("**/.env",)), ".env", False),
        (FileRules(denied=("**/.env",)), "a/b/.ENV", False),
        (FileRules(denied=("**/.env",)), "a/env", True),
        (FileRules(denied=("**/secret/**",)), "secret/a", False),
        (FileRules(denied=("**/secret/**",)), "a/secret/b", False),
        (FileRules(denied=("**/secret/**",)), "secrets/a", True),
        (FileRules(denied=("a/**/key",)), "a/key", False),
        (FileRules(denied=("a/**/key",)), "a/b/c/key/d", False),
        (FileRules(denied=("a/**/key",)), "b/a/key", True),
        (FileRules(denied=("./a//b",)), "a/b", False),
        (FileRules(denied=("./a",)), "c/a", False),
        (FileRules(denied=("**",)), "a", False),
        (FileRules(denied=("./",)), "a", False),
        (FileRules(allowed=(("a",), ("a/b",))), "a/c", False),
        (FileRules(allowed=(("a",), ("a/b",))), "a/b/c", True),
        (FileRules(), "anything", True),
    ],
)
def test_a_path_is_looked_at_as_it_is_opened(rules: FileRules, path: str, allowed: bool) -> None:
    components = [part for part in path.split("/") if part not in ("", ".")]
    assert (not rules.against(components)) is allowed


def test_the_file_tools_hold_themselves_to_it(tmp_path: Path) -> None:
    space = str(tmp_path)
    for name in ("src/a.txt", "src/My.Key", "other/b.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x" * 30)
    rules = FileRules((("src", "new"),), ("*.key",), 20)
    with pytest.raises(FileError, match="none of what may be used here"):
        read_file(space, "other/b.txt", rules=rules)
    with pytest.raises(FileError, match=r"is denied here \(denied_patterns: \*\.key\)"):
        read_file(space, "src/My.Key", rules=rules)
    with pytest.raises(
        FileError, match=r"has 30 bytes, and at most 20 are read or written \(max_file_size_mb\)"
    ):
        read_file(space, "src/a.txt", rules=rules)
    for path, words in (
        ("other/c", "none of"),
        ("src/c.key", "denied"),
        ("../c", "upwards"),
        ("/c", "absolute"),
    ):
        with pytest.raises(FileError, match=words):
            write_file(space, path, "x", rules=rules)
        assert file_version(space, path, rules=rules) == UNKNOWN
    with pytest.raises(FileError, match="has 21 bytes"):
        write_file(space, "src/big", "x" * 21, rules=rules)
    assert sorted(os.listdir(tmp_path / "src")) == ["My.Key", "a.txt"] and not (tmp_path / "other/c").exists()
    assert write_file(space, "new/deep/a", "x" * 20, rules=rules) and (tmp_path / "new/deep/a").exists()
    assert list_directory(space, rules=rules).splitlines() == ["new/", "src/"]
    assert list_directory(space, "src", rules=rules).splitlines() == ["a.txt  30 bytes"]
    with pytest.raises(FileError, match="none of what may be used here"):
        list_directory(space, "other", rules=rules)


def test_a_link_leads_nowhere_that_may_not_be_used(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "hidden.key").write_text("secret")
    (tmp_path / "src/link").symlink_to("../hidden.key")
    os.link(tmp_path / "hidden.key", tmp_path / "src/twin")
    for name in ("src/link", "src/twin"):
        with pytest.raises(FileError, match=r"symbolic link|hard links"):
            read_file(str(tmp_path), name, rules=NO_KEYS)

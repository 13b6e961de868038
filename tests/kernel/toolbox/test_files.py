"""Files of a workspace, attacked: whatever the path or the directory holds, nothing outside is read or written."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import secrets
import socket
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kernel.toolbox.absence import ABSENT, read_absence
from kernel.toolbox.files import (
    MAX_LISTED,
    MAX_READ_BYTES,
    MAX_WRITE_BYTES,
    UNKNOWN,
    FileChanged,
    FileError,
    file_version,
    list_directory,
    probe_write,
    read_file,
    write_file,
)
from kernel.toolbox.protected import ProtectedPaths

SECRET = "outside and secret"
RENAME_EXCHANGE = 2
SYS_RENAMEAT2 = {"x86_64": 316, "aarch64": 276}


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    directory = tmp_path / "outside"
    directory.mkdir()
    (directory / "secret.txt").write_text(SECRET)
    return directory


@pytest.fixture
def workspace(tmp_path: Path, outside: Path) -> Path:
    directory = tmp_path / "workspace"
    (directory / "sub").mkdir(parents=True)
    (directory / "notes.txt").write_text("one\ntwo\n")
    (directory / "sub" / "deep.txt").write_text("deep")
    return directory


def read(workspace: Path, path: str) -> str:
    return read_file(str(workspace), path)


def write(workspace: Path, path: str) -> str:
    return write_file(str(workspace), path, "written")


def list_(workspace: Path, path: str) -> str:
    return list_directory(str(workspace), path)


EVERY_TOOL = pytest.mark.parametrize("tool", [read, write, list_])
Tool = Callable[[Path, str], str]


def untouched(outside: Path) -> bool:
    return [entry.name for entry in outside.iterdir()] == ["secret.txt"] and (
        outside / "secret.txt"
    ).read_text() == SECRET


# -- what they are for


def test_a_file_is_read_whole_and_unchanged(workspace: Path) -> None:
    assert read(workspace, "notes.txt") == "one\ntwo\n"
    assert read(workspace, "./sub//deep.txt") == "deep"


def test_a_directory_is_listed_sorted_with_kinds_and_sizes(workspace: Path) -> None:
    os.symlink("notes.txt", workspace / "link")
    os.mkfifo(workspace / "pipe")
    assert list_(workspace, ".").splitlines() == [
        "link  [a symbolic link, which is not followed]",
        "notes.txt  8 bytes",
        "pipe  [a FIFO]",
        "sub/",
    ]
    assert list_(workspace, "sub") == "deep.txt  4 bytes"
    assert list_(workspace, "") == list_(workspace, ".")


def test_an_empty_directory_says_so(workspace: Path) -> None:
    (workspace / "void").mkdir()
    assert list_(workspace, "void") == "[empty directory]"


def test_names_that_are_no_text_are_shown_escaped(workspace: Path) -> None:
    os.mkdir(os.fsencode(workspace / "odd"))
    for name in (b"a\nb", b"\x1b[31mred", b"\xff"):
        os.close(os.open(os.fsencode(workspace / "odd") + b"/" + name, os.O_CREAT | os.O_WRONLY))
    assert sorted(list_(workspace, "odd").splitlines()) == [
        r"\udcff  0 bytes",
        r"\x1b[31mred  0 bytes",
        r"a\nb  0 bytes",
    ]


def test_a_listing_is_bounded_and_says_how_much_there_is(workspace: Path) -> None:
    (workspace / "many").mkdir()
    for number in range(MAX_LISTED + 5):
        (workspace / "many" / f"{number:05}").touch()
    lines = list_(workspace, "many").splitlines()
    assert len(lines) == MAX_LISTED + 1
    assert lines[-1] == f"[{MAX_LISTED + 5} entries, the first {MAX_LISTED} are listed]"


def test_writing_creates_replaces_and_makes_directories(workspace: Path) -> None:
    assert write_file(str(workspace), "new/er/file.txt", "é") == "wrote 2 bytes to 'new/er/file.txt'"
    assert (workspace / "new/er/file.txt").read_text() == "é"
    write(workspace, "notes.txt")
    assert (workspace / "notes.txt").read_text() == "written"


def test_replacing_keeps_the_permissions_and_leaves_no_temporary_file(workspace: Path) -> None:
    (workspace / "notes.txt").chmod(0o4751)
    write(workspace, "notes.txt")
    assert stat.S_IMODE((workspace / "notes.txt").stat().st_mode) == 0o751
    assert sorted(entry.name for entry in workspace.iterdir()) == ["notes.txt", "sub"]


def test_replacing_a_file_of_another_user_keeps_nothing_that_this_one_has_allowed(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was put there beforehand, so that what is written later can be read."""
    (workspace / "notes.txt").chmod(0o666)
    monkeypatch.setattr(os, "geteuid", lambda: 54321)
    umask = os.umask(0o077)
    try:
        write(workspace, "notes.txt")
    finally:
        os.umask(umask)
    assert stat.S_IMODE((workspace / "notes.txt").stat().st_mode) == 0o600


def test_a_write_is_synced_file_first_then_renamed_then_its_directory(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    real_fsync, real_rename = os.fsync, os.rename

    def fsync(handle: int) -> None:
        done.append("directory" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file")
        real_fsync(handle)

    def rename(*args: Any, **kwargs: Any) -> None:
        done.append("rename")
        real_rename(*args, **kwargs)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "rename", rename)
    write(workspace, "notes.txt")
    assert done == ["file", "rename", "directory"]
    done.clear()
    write(workspace, "fresh/notes.txt")
    assert done == ["directory", "file", "rename", "directory"]


def test_a_long_file_is_read_in_pieces_that_fit_together(workspace: Path) -> None:
    text = "".join(f"{number} é\n" for number in range(20_000))
    (workspace / "long.txt").write_text(text)
    size = len(text.encode())
    pieces, offset = [], 0
    while offset < size:
        piece, _, note = read_file(str(workspace), "long.txt", offset).rpartition("\n[bytes ")
        pieces.append(piece)
        start, end = note.split(" of ")[0].split(" to ")
        assert int(start) == offset
        offset = int(end)
        assert note.endswith(f"go on with offset {offset}]" if offset < size else "the end]")
    assert "".join(pieces) == text
    assert len(pieces) == 1 + size // MAX_READ_BYTES


# -- attacks by path


@EVERY_TOOL
@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("../outside/secret.txt", "leads upwards"),
        ("sub/../../outside/secret.txt", "leads upwards"),
        ("sub/..", "leads upwards"),
        ("..", "leads upwards"),
        ("/etc/hostname", "is absolute"),
        ("//etc/hostname", "is absolute"),
        ("notes.txt\0.png", "control character"),
        ("a\nb", "control character"),
        ("\x7f", "control character"),
        ("\ud800", "lone surrogate"),
        ("a" * 256, "over 255 bytes"),
        ("é" * 128, "over 255 bytes"),
        ("a/" * 65 + "b", "66 components"),
        ("a/" * 3000, "6000 bytes"),
        ("notes.txt/below", "is a file, not a directory"),
    ],
    ids=lambda value: value if callable(value) else ascii(value[:20]),
)
def test_a_path_that_could_lead_out_is_refused(
    workspace: Path, outside: Path, tool: Tool, path: str, words: str
) -> None:
    with pytest.raises(FileError) as refusal:
        tool(workspace, path)
    assert words in str(refusal.value)
    assert str(refusal.value).isprintable()
    assert untouched(outside)


def test_the_absolute_path_of_the_workspace_itself_is_refused_too(workspace: Path) -> None:
    with pytest.raises(FileError, match="is absolute"):
        read(workspace, str(workspace / "notes.txt"))


@pytest.mark.parametrize("path", ["", ".", "./", "sub/"])
def test_a_path_without_a_file_name_is_no_file(workspace: Path, path: str) -> None:
    for tool in (read, write):
        with pytest.raises(FileError, match="names"):
            tool(workspace, path)


def test_what_does_not_exist_is_said_to_be_missing(workspace: Path) -> None:
    with pytest.raises(FileError, match=r"'gone\.txt': does not exist"):
        read(workspace, "gone.txt")
    with pytest.raises(FileError, match="'gone': does not exist"):
        list_(workspace, "gone")


# -- attacks by what lies in the workspace


def test_symbolic_links_are_not_followed_not_even_back_inside(workspace: Path, outside: Path) -> None:
    os.symlink(outside / "secret.txt", workspace / "file")
    os.symlink(outside, workspace / "directory")
    os.symlink("notes.txt", workspace / "inside")
    os.symlink("loop", workspace / "loop")
    for name in ("file", "inside", "loop"):
        for tool in (read, write):
            with pytest.raises(FileError, match="symbolic link"):
                tool(workspace, name)
    with pytest.raises(FileError, match="'directory' is a symbolic link"):
        read(workspace, "directory/secret.txt")
    with pytest.raises(FileError, match="'directory' is a symbolic link"):
        write(workspace, "directory/planted.txt")
    with pytest.raises(FileError, match="'directory' is a symbolic link"):
        write(workspace, "directory/made/planted.txt")
    with pytest.raises(FileError, match="'directory' is a symbolic link"):
        list_(workspace, "directory")
    assert untouched(outside)


def test_a_file_with_another_name_outside_is_not_read_and_not_written_through(
    workspace: Path, outside: Path
) -> None:
    os.link(outside / "secret.txt", workspace / "hard")
    with pytest.raises(FileError, match="has 2 names"):
        read(workspace, "hard")
    write(workspace, "hard")
    assert (workspace / "hard").read_text() == "written"
    assert untouched(outside)


def test_what_is_no_regular_file_is_refused_without_waiting(workspace: Path) -> None:
    os.mkfifo(workspace / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(workspace / "socket"))
    for name, words in (("pipe", "is a FIFO"), ("socket", "is a socket"), ("sub", "is a directory")):
        for tool in (read, write):
            with pytest.raises(FileError, match=words):
                tool(workspace, name)
        assert (workspace / name).exists()
    with pytest.raises(FileError, match="'pipe' is a FIFO, not a directory"):
        list_(workspace, "pipe")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes device files")
def test_a_device_is_not_touched(workspace: Path) -> None:
    os.mknod(workspace / "zero", 0o666 | stat.S_IFCHR, os.makedev(1, 5))
    for tool in (read, write):
        with pytest.raises(FileError, match="is a device"):
            tool(workspace, "zero")


def test_devices_of_the_machine_are_refused_when_the_workspace_holds_them() -> None:
    with pytest.raises(FileError, match="'zero' is a device"):
        read_file("/dev", "zero")


def test_a_file_of_a_terabyte_is_read_as_one_piece_of_it(workspace: Path) -> None:
    with open(workspace / "huge", "wb") as file:
        file.truncate(2**40)
    text = read(workspace, "huge")
    assert len(text) < MAX_READ_BYTES + 100
    assert text.endswith(f"[bytes 0 to {MAX_READ_BYTES} of {2**40}; go on with offset {MAX_READ_BYTES}]")
    assert read_file(str(workspace), "huge", 2**40 - 4).startswith("\0\0\0\0\n[bytes")


def test_what_is_not_utf8_is_refused_with_the_place(workspace: Path) -> None:
    (workspace / "binary").write_bytes(b"ab\xff\xfe" + b"c" * 100)
    with pytest.raises(FileError, match="not UTF-8 text: byte 2 "):
        read(workspace, "binary")
    (workspace / "cut").write_bytes("abcé".encode()[:-1])
    with pytest.raises(FileError, match="not UTF-8 text: byte 3 "):
        read(workspace, "cut")
    (workspace / "late").write_bytes(b"x" * 100 + b"\xff")
    with pytest.raises(FileError, match="not UTF-8 text: byte 100 "):
        read_file(str(workspace), "late", 50)


@pytest.mark.parametrize(("offset", "limit"), [(-1, 100), (0, 0), (0, 3), (0, MAX_READ_BYTES + 1)])
def test_an_offset_or_limit_out_of_range_is_refused(workspace: Path, offset: int, limit: int) -> None:
    with pytest.raises(FileError, match="offset must be"):
        read_file(str(workspace), "notes.txt", offset, limit)


def test_content_that_is_too_long_or_no_text_is_not_written(workspace: Path) -> None:
    with pytest.raises(FileError, match="1048577 bytes, at most"):
        write_file(str(workspace), "big", "x" * (2**20 + 1))
    with pytest.raises(FileError, match="lone surrogate"):
        write_file(str(workspace), "odd", "\ud800")
    assert sorted(entry.name for entry in workspace.iterdir()) == ["notes.txt", "sub"]


def test_a_failed_write_leaves_the_old_file_and_no_temporary_one(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(handle: int, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(FileError, match="no space left on device"):
        write(workspace, "notes.txt")
    assert sorted(entry.name for entry in workspace.iterdir()) == ["notes.txt", "sub"]
    assert (workspace / "notes.txt").read_text() == "one\ntwo\n"


# -- the workspace itself


def test_a_workspace_that_is_a_symbolic_link_is_refused(workspace: Path, tmp_path: Path) -> None:
    os.symlink(workspace, tmp_path / "alias")
    for path in (tmp_path / "alias", f"{tmp_path}/alias/"):
        with pytest.raises(FileError, match="the workspace is a symbolic link"):
            read_file(str(path), "notes.txt")


def way_swapped_for_a_link(tmp_path: Path, mode: int) -> Path:
    """A workspace, and on the way to it, in a directory of this mode, a link to somebody's directory like it."""
    shared, private = tmp_path / "shared", tmp_path / "private"
    for directory in (shared / "project" / "docs", private / "docs"):
        directory.mkdir(parents=True)
    (private / "docs" / "secret.txt").write_text(SECRET)
    os.rename(shared / "project", shared / "away")
    os.symlink(private, shared / "project")
    shared.chmod(mode)
    return shared / "project" / "docs"


def test_a_link_that_others_may_have_put_on_the_way_to_a_workspace_leads_nowhere(tmp_path: Path) -> None:
    workspace = way_swapped_for_a_link(tmp_path, 0o777)
    for tool, path in ((read, "secret.txt"), (write, "evil.txt"), (list_, ".")):
        with pytest.raises(
            FileError, match="the workspace leads through a symbolic link that others may have"
        ):
            tool(workspace, path)
    assert file_version(str(workspace), "secret.txt") == UNKNOWN
    assert os.listdir(tmp_path / "private" / "docs") == ["secret.txt"]


@pytest.mark.parametrize("owned", ["link", "directory"])
def test_a_link_of_another_user_on_the_way_to_a_workspace_leads_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owned: str
) -> None:
    workspace = way_swapped_for_a_link(tmp_path, 0o755)
    others = os.lstat(workspace.parent if owned == "link" else workspace.parent.parent).st_ino
    real_stat, real_fstat = os.stat, os.fstat

    def as_another(found: os.stat_result) -> os.stat_result:
        fields = list(found)
        fields[stat.ST_UID] = 54321
        return os.stat_result(fields) if found.st_ino == others else found

    monkeypatch.setattr(os, "stat", lambda *args, **kwargs: as_another(real_stat(*args, **kwargs)))
    monkeypatch.setattr(os, "fstat", lambda handle: as_another(real_fstat(handle)))
    with pytest.raises(FileError, match="leads through a symbolic link that others may have"):
        read(workspace, "secret.txt")


@pytest.mark.parametrize("mode", [0o755, 0o1777, 0o775])
@pytest.mark.parametrize("leads", ["{}/private", "../private", "./round/../../private/."])
def test_a_link_of_ones_own_on_the_way_to_a_workspace_is_followed(
    tmp_path: Path, mode: int, leads: str
) -> None:
    shared, private = tmp_path / "shared", tmp_path / "private"
    for directory in (shared / "round", private / "docs"):
        directory.mkdir(parents=True)
    (private / "docs" / "notes.txt").write_text("mine")
    os.symlink(leads.format(tmp_path), shared / "project")
    shared.chmod(mode)
    protected = ProtectedPaths(own_groups=[tmp_path.stat().st_gid])
    assert read_file(str(shared / "project" / "docs"), "notes.txt", protected=protected) == "mine"


def test_links_on_the_way_to_a_workspace_that_lead_in_a_circle_are_given_up(tmp_path: Path) -> None:
    os.symlink("round", tmp_path / "round")
    with pytest.raises(FileError, match="the workspace too many levels of symbolic links"):
        read(tmp_path / "round" / "docs", "notes.txt")


@pytest.mark.parametrize("workspace", ["", "relative/path", "."])
def test_without_an_absolute_workspace_there_are_no_files(workspace: str) -> None:
    with pytest.raises(FileError, match="no workspace"):
        list_directory(workspace)


def test_a_workspace_that_is_missing_or_no_directory_is_refused(workspace: Path) -> None:
    for path, words in ((workspace / "gone", "does not exist"), (workspace / "notes.txt", "not a directory")):
        with pytest.raises(FileError, match=f"the workspace {words}"):
            list_directory(str(path))


# -- attacks during the call


def swap(workspace: Path, outside: Path) -> None:
    """Put a link to the outside where the directory was."""
    os.rename(workspace / "sub", workspace / "sub.gone")
    os.symlink(outside, workspace / "sub")


@pytest.mark.parametrize("moment", ["before the component is opened", "after it was opened"])
@pytest.mark.parametrize("tool", [read, write])
def test_a_component_swapped_for_a_link_during_the_call_leads_nowhere(
    workspace: Path, outside: Path, monkeypatch: pytest.MonkeyPatch, tool: Tool, moment: str
) -> None:
    (workspace / "sub" / "secret.txt").write_text("inside")
    real_open = os.open

    def open_(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        swapped = os.path.islink(workspace / "sub")
        if path == "sub" and not swapped and moment.startswith("before"):
            swap(workspace, outside)
        handle = real_open(path, flags, mode, dir_fd=dir_fd)
        if path == "sub" and not swapped and moment.startswith("after"):
            swap(workspace, outside)
        return handle

    monkeypatch.setattr(os, "open", open_)
    if moment.startswith("before"):
        with pytest.raises(FileError, match="'sub' is a symbolic link"):
            tool(workspace, "sub/secret.txt")
    else:
        assert SECRET not in tool(workspace, "sub/secret.txt")
    assert untouched(outside)


def test_a_file_swapped_for_a_link_between_look_and_read_is_not_followed(
    workspace: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_fstat = os.fstat

    def fstat(handle: int) -> os.stat_result:
        found = real_fstat(handle)
        if stat.S_ISREG(found.st_mode) and not (workspace / "notes.txt").is_symlink():
            os.unlink(workspace / "notes.txt")
            os.symlink(outside / "secret.txt", workspace / "notes.txt")
            return found
        return found

    monkeypatch.setattr(os, "fstat", fstat)
    assert read(workspace, "notes.txt") == "one\ntwo\n"


def test_the_target_swapped_for_a_link_before_the_rename_is_replaced_not_followed(
    workspace: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_rename = os.rename

    def rename(*args: Any, **kwargs: Any) -> None:
        os.unlink(workspace / "notes.txt")
        os.symlink(outside / "secret.txt", workspace / "notes.txt")
        real_rename(*args, **kwargs)

    monkeypatch.setattr(os, "rename", rename)
    write(workspace, "notes.txt")
    assert not (workspace / "notes.txt").is_symlink()
    assert (workspace / "notes.txt").read_text() == "written"
    assert untouched(outside)


def test_directory_and_link_swapped_without_pause_never_show_the_outside(
    workspace: Path, outside: Path
) -> None:
    """A real race: one thread swaps, the other reads and writes through the swapped name."""
    (workspace / "sub" / "secret.txt").write_text("inside")
    os.symlink(outside, workspace / "trap")
    stop = threading.Event()
    exchange = functools.partial(ctypes.CDLL(None).syscall, SYS_RENAMEAT2[os.uname().machine])
    paths = (-100, os.fsencode(workspace / "sub"), -100, os.fsencode(workspace / "trap"), RENAME_EXCHANGE)

    def swap_on_and_on() -> None:
        while not stop.is_set():
            assert exchange(*paths) == 0

    swapper = threading.Thread(target=swap_on_and_on)
    swapper.start()
    answers: set[str] = set()
    try:
        for _ in range(1000):
            for tool in (read, write):
                try:
                    answers.add(tool(workspace, "sub/secret.txt"))
                except FileError as error:
                    answers.add(str(error))
    finally:
        stop.set()
        swapper.join()
    assert untouched(outside)
    assert not any(SECRET in answer for answer in answers)
    assert any("wrote" in answer for answer in answers)
    assert any("symbolic link" in answer for answer in answers)


def test_no_descriptor_is_left_open(workspace: Path) -> None:
    os.symlink("notes.txt", workspace / "link")
    before = set(os.listdir("/proc/self/fd"))
    for tool in (read, write, list_):
        for path in ("notes.txt", "sub/deep.txt", "sub", "gone/x", "link", "link/x", "..", "notes.txt/x"):
            with contextlib.suppress(FileError):
                tool(workspace, path)
    assert set(os.listdir("/proc/self/fd")) <= before  # a thread may have closed some of a test before


def test_a_temporary_name_that_is_taken_is_not_written_through(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secrets, "token_hex", lambda count: "known")
    os.symlink("notes.txt", workspace / ".weftos-known.tmp")
    with pytest.raises(FileError, match="is a symbolic link"):
        write(workspace, "fresh.txt")
    assert (workspace / "notes.txt").read_text() == "one\ntwo\n"


@pytest.fixture
def node_inside(workspace: Path) -> Path:
    """A node's data directory somewhere below a workspace."""
    data = workspace / "deep" / "node"
    (data / "keys").mkdir(parents=True)
    (data / "format").write_text("weftos-data 1\n")
    (data / "keys" / "ed25519.key").write_text("secret")
    (data / "workspaces" / "ada").mkdir(parents=True)
    (data / "workspaces" / "ada" / "note.txt").write_text("hers")
    return data


@pytest.mark.parametrize("being_made", [True, False])
def test_a_data_directory_below_a_workspace_is_entered_by_nobody(
    workspace: Path, node_inside: Path, being_made: bool
) -> None:
    if being_made:
        (node_inside / "format").unlink()
    for tool, path in (
        (read, "deep/node/keys/ed25519.key"),
        (read, "deep/node/workspaces/ada/note.txt"),
        (list_, "deep/node"),
        (write, "deep/node/weftos.toml"),
        (write, "deep/node/new/file"),
    ):
        with pytest.raises(FileError, match="'deep/node' is a data directory of weftos"):
            tool(workspace, path)
    assert not (node_inside / "new").exists()


@pytest.mark.parametrize(
    "marks", [{"format": "weftos-runtime 1\n"}, {"cluster.json": "{}", "boot.json": "{}"}]
)
def test_a_runtime_directory_and_that_of_a_cluster_are_no_less_ours(
    workspace: Path, marks: dict[str, str]
) -> None:
    (workspace / "ours").mkdir()
    for name, text in {**marks, "ray.token": "secret"}.items():
        (workspace / "ours" / name).write_text(text)
    with pytest.raises(FileError, match="is a data directory of weftos"):
        read(workspace, "ours/ray.token")


@pytest.mark.parametrize("inside", ["", "keys", "workspaces"])
def test_a_workspace_in_a_data_directory_is_one_of_its_workspaces_or_none(
    node_inside: Path, inside: str
) -> None:
    with pytest.raises(FileError, match="the workspace lies in a data directory"):
        list_(node_inside / inside, ".")
    assert read(node_inside / "workspaces" / "ada", "note.txt") == "hers"


@pytest.mark.parametrize(
    ("before", "path"),
    [
        ("", "format"),
        ("", "Format"),
        ("", "keys/ed25519.key"),
        ("", "ed25519.key"),
        ("cluster.json", "boot.json"),
        ("boot.json", "cluster.json"),
        ("boot.json", "Cluster.json"),
    ],
)
def test_no_agent_can_make_a_directory_look_like_a_data_directory(
    workspace: Path, before: str, path: str
) -> None:
    if before:
        write(workspace, before)
        write(workspace, before)
    with pytest.raises(FileError, match="would mark a directory"):
        write_file(str(workspace), path, "weftos-data 1\n")
    assert "notes.txt" in list_(workspace, ".")
    assert write_file(str(workspace), "sub/format", "A4") == "wrote 2 bytes to 'sub/format'"


def test_who_comes_second_while_two_write_the_files_of_a_cluster_is_refused(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextlib.contextmanager
    def the_other_first() -> Iterator[None]:
        (workspace / "cluster.json").touch()
        yield

    monkeypatch.setattr("kernel.toolbox.files._RENAMING", the_other_first())
    with pytest.raises(FileError, match="would mark a directory"):
        write(workspace, "boot.json")
    assert list_(workspace, ".").splitlines() == ["cluster.json  0 bytes", "notes.txt  8 bytes", "sub/"]


@pytest.mark.parametrize("paths", [["keys/ed25519.key/a"], ["cluster.json/a", "boot.json/b"], ["format/a"]])
def test_directories_of_such_names_shut_nobody_out(workspace: Path, paths: list[str]) -> None:
    for path in paths:
        write(workspace, path)
    assert [read(workspace, path) for path in paths] == ["written"] * len(paths)


# -- what decides what the node runs ---------------------------------------------------------------------------------


def test_what_decides_what_the_node_runs_is_shown_by_no_workspace(workspace: Path) -> None:
    (workspace / "weftos.toml").write_text("ours")
    (workspace / "tools" / "deep").mkdir(parents=True)
    (workspace / "tools" / "count.py").write_text("ours")
    names = ("weftos.toml", "tools", "later/own.pem", "later/code")
    protected = ProtectedPaths(str(workspace / name) for name in names)
    root = str(workspace)
    for path in (
        "weftos.toml",
        "tools/count.py",
        "tools/new.py",
        "tools/deep/new.py",
        "later/own.pem",
        "later/code/a",
    ):
        with pytest.raises(FileError, match="decides what the node runs or whom it believes"):
            write_file(root, path, "mine", protected=protected)
        with pytest.raises(FileError):
            read_file(root, path, protected=protected)
        assert file_version(root, path, protected=protected) == UNKNOWN
    with pytest.raises(FileError, match="'tools' decides"):
        list_directory(root, "tools", protected=protected)
    for inside in ("tools", "tools/deep"):
        with pytest.raises(FileError, match=r"the workspace lies in .* what decides what the node runs"):
            list_directory(str(workspace / inside), protected=protected)
    assert (workspace / "weftos.toml").read_text() == (workspace / "tools" / "count.py").read_text() == "ours"
    assert sorted(each.name for each in workspace.glob("*/*")) == ["count.py", "deep", "deep.txt"]
    assert (
        write_file(root, "later/notes.txt", "mine", protected=protected)
        == "wrote 4 bytes to 'later/notes.txt'"
    )
    assert "weftos.toml  4 bytes" in list_directory(root, protected=protected)


def test_another_name_of_what_decides_leads_nowhere_either(workspace: Path, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to(workspace)
    (tmp_path / "weftos.toml").write_text("ours")
    os.link(tmp_path / "weftos.toml", workspace / "settings")
    protected = ProtectedPaths([str(tmp_path / "alias" / "sub"), str(tmp_path / "weftos.toml")])
    for path in ("sub/deep.txt", "sub/new.txt", "settings"):
        with pytest.raises(FileError, match="decides what the node runs"):
            write_file(str(workspace), path, "mine", protected=protected)


def test_the_workspaces_of_a_node_are_open_whatever_lies_around_its_data(node_inside: Path) -> None:
    protected = ProtectedPaths([str(node_inside.parent), str(node_inside / "workspaces" / "bob")])
    (node_inside / "workspaces" / "bob").mkdir()
    assert read_file(str(node_inside / "workspaces" / "ada"), "note.txt", protected=protected) == "hers"
    with pytest.raises(FileError, match="the workspace lies in"):
        list_directory(str(node_inside / "workspaces" / "bob"), protected=protected)


# -- a write that is made again --------------------------------------------------------------------------------------


def test_a_version_tells_each_change_of_a_file_from_the_one_before(tmp_path: Path) -> None:
    workspace, file = str(tmp_path), tmp_path / "a.txt"
    versions = [file_version(workspace, path) for path in ("a.txt", "a.txt", "no/such/a.txt")]
    assert [absence and absence.depth for absence in map(read_absence, versions)] == [0, 0, 0]
    for text in ("one", "two", "two"):
        write_file(workspace, "a.txt", text)
        versions.append(file_version(workspace, "a.txt"))
        assert file_version(workspace, "a.txt") == versions[-1]
    file.chmod(0o600)
    with file.open("r+") as handle:
        handle.write("six")
    versions.append(file_version(workspace, "a.txt"))
    assert len(set(versions)) == 7


@pytest.mark.parametrize("path", ["../a", "/a", "directory", "link", "a\nb", ""])
def test_what_is_no_file_has_no_version(tmp_path: Path, path: str) -> None:
    (tmp_path / "directory").mkdir()
    (tmp_path / "link").symlink_to("/etc/passwd")
    assert file_version(str(tmp_path), path) == UNKNOWN


def test_a_write_that_is_made_again_replaces_only_what_it_was_to_replace(tmp_path: Path) -> None:
    workspace, file = str(tmp_path), tmp_path / "a.txt"
    file.write_text("before")
    before = file_version(workspace, "a.txt")
    assert write_file(workspace, "a.txt", "mine", before) == "wrote 4 bytes to 'a.txt'"
    inode = file.stat().st_ino
    assert write_file(workspace, "a.txt", "mine", before) == "'a.txt' holds these 4 bytes already"
    assert file.stat().st_ino == inode
    write_file(workspace, "a.txt", "newer")
    for replaces in (before, ABSENT, UNKNOWN):
        with pytest.raises(FileChanged, match="changed by somebody else after this write had begun"):
            write_file(workspace, "a.txt", "mine", replaces)
    assert file.read_text() == "newer"
    file.unlink()
    with pytest.raises(FileChanged):
        write_file(workspace, "a.txt", "mine", before)


@pytest.mark.parametrize(
    ("path", "depth"), [("a.txt", 0), ("new/b.txt", 0), ("old/c.txt", 1), ("old/new/d.txt", 1)]
)
def test_a_new_file_is_written_again_only_while_it_was_never_there(
    tmp_path: Path, path: str, depth: int
) -> None:
    """That there is none any more is not that there is none yet: who has taken it away is not given it twice."""
    workspace, file = str(tmp_path), tmp_path / path
    (tmp_path / "old").mkdir()
    looked = file_version(workspace, path)
    absence = read_absence(looked)
    assert absence is not None and absence.depth == depth
    witness = tmp_path.joinpath(*path.split("/")[:depth], absence.witness)
    assert witness.read_bytes() == b"" and not file.exists()
    assert write_file(workspace, path, "mine", looked=looked) == f"wrote 4 bytes to '{path}'"
    assert (file.read_text(), witness.exists()) == ("mine", False)
    assert write_file(workspace, path, "mine", looked) == f"'{path}' holds these 4 bytes already"
    file.unlink()
    with pytest.raises(FileChanged, match="it is not known whether this write was done"):
        write_file(workspace, path, "mine", looked)
    assert not file.exists()

    looked = file_version(workspace, path)  # and when the attempt ended before its rename
    witness = file.with_name(read_absence(looked).witness)  # type: ignore[union-attr]
    witness.write_text("half of what was to be written")
    assert write_file(workspace, path, "mine", looked) == f"wrote 4 bytes to '{path}'"
    assert (file.read_text(), witness.exists()) == ("mine", False)


@pytest.mark.parametrize("path", ["a.txt", "new/b.txt", "old/c.txt"])
def test_of_a_new_file_its_witness_tells_whether_it_was_written(tmp_path: Path, path: str) -> None:
    workspace, file = str(tmp_path), tmp_path / path
    (tmp_path / "old").mkdir()
    looked = file_version(workspace, path)

    def said(content: str = "mine") -> str:
        return probe_write(workspace, path, content, looked).answer

    assert said() == "not_landed"
    file.parent.mkdir(exist_ok=True)
    file.write_text("mine")  # somebody else's: the attempt never came to its rename
    assert said() == "not_landed"
    file.unlink()
    write_file(workspace, path, "mine", looked=looked)
    probed = probe_write(workspace, path, "mine", looked)
    assert (probed.answer, probed.result) == ("landed", f"wrote 4 bytes to '{path}'")
    assert said("other") == "unknown"
    file.unlink()
    assert said() == "unknown"


def test_of_a_file_that_was_there_its_version_tells_whether_it_was_written(tmp_path: Path) -> None:
    workspace, file = str(tmp_path), tmp_path / "a.txt"
    file.write_text("mine")
    before = file_version(workspace, "a.txt")

    def said(replaces: str = before) -> str:
        return probe_write(workspace, "a.txt", "mine", replaces).answer

    assert said() == "not_landed"
    write_file(workspace, "a.txt", "mine")
    assert said() == "landed"
    assert said(UNKNOWN) == "unknown"
    file.write_text("theirs")
    assert said() == said(UNKNOWN) == "unknown"
    file.unlink()
    assert said() == said(UNKNOWN) == said(ABSENT) == "unknown"
    with pytest.raises(FileError):
        probe_write(workspace, "../a.txt", "mine", before)


@pytest.mark.parametrize("content", ["x" * (MAX_WRITE_BYTES + 1), "\ud800"], ids=["large", "no text"])
def test_a_write_that_fails_leaves_no_witness(tmp_path: Path, content: str) -> None:
    looked = file_version(str(tmp_path), "a.txt")
    with pytest.raises(FileError):
        write_file(str(tmp_path), "a.txt", content, looked=looked)
    assert list(tmp_path.iterdir()) == []


def test_a_write_that_somebody_else_was_quicker_than_leaves_no_witness(tmp_path: Path) -> None:
    looked = file_version(str(tmp_path), "a.txt")
    (tmp_path / "a.txt").write_text("theirs")
    with pytest.raises(FileChanged):
        write_file(str(tmp_path), "a.txt", "mine", looked)
    assert [each.name for each in tmp_path.iterdir()] == ["a.txt"]


@pytest.mark.parametrize("put", ["symlink_to", "hardlink_to"])
def test_what_was_put_in_the_place_of_a_witness_is_not_written_into(tmp_path: Path, put: str) -> None:
    workspace, outside = tmp_path / "workspace", tmp_path / "outside"
    workspace.mkdir()
    outside.write_text("theirs")
    looked = file_version(str(workspace), "a.txt")
    witness = workspace / read_absence(looked).witness  # type: ignore[union-attr]
    witness.unlink()
    getattr(witness, put)(outside)
    for terms in ({"looked": looked}, {"replaces": looked}):
        with pytest.raises((FileError, FileChanged)):
            write_file(str(workspace), "a.txt", "mine", **terms)  # type: ignore[arg-type]
    assert outside.read_text() == "theirs" and not (workspace / "a.txt").exists()

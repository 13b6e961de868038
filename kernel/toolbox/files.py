"""Files of a workspace: read, list, write, and nothing outside it.

How a path is kept inside. It is never handed to the operating system as a whole: the workspace is opened
once, through no link that others may have put on its way (:mod:`kernel.toolbox.way`), then each component is
opened relative to the descriptor of the one before, with ``O_PATH | O_NOFOLLOW``, and looked at through that
descriptor. ``..``, absolute paths and symbolic links are refused (also those that would lead back inside), so
a component that is swapped for a link during the call is either refused or no longer on our way. A file is
opened for reading only after its descriptor said that it is a regular file, through that same descriptor: no
FIFO blocks us, no device is touched. A file with several names (hard links) may lie outside by another of them
and is not read; writing replaces the name and leaves the other file alone. A directory of weftos' own
(:mod:`kernel.toolbox.data_mark`), of this node or another, is entered by nobody, wherever below a workspace it
lies, and no workspace lies in one but below its ``workspaces``. What decides what the node runs
(:mod:`kernel.toolbox.protected`) is kept from everybody in the same way.

A write is complete before it is reported: temporary file, fsync, rename, fsync of the directory. A write that is made
again, since nobody knows whether it was made, says what it may replace: the **version** that was there before the first
attempt. What somebody else wrote meanwhile is so never overwritten by it, and what somebody has taken away meanwhile is
not brought back (:mod:`kernel.toolbox.absence`).
"""

from __future__ import annotations

import contextlib
import os
import stat
import threading
from collections.abc import Iterator
from hashlib import sha256

from kernel.abi import Probed
from kernel.toolbox.absence import ABSENT, Absence, new_absence, read_absence
from kernel.toolbox.data_mark import is_ours, lies_in_ours, would_mark
from kernel.toolbox.protected import NOTHING_PROTECTED, ProtectedPaths
from kernel.toolbox.rules.file_rules import ALL_FILES, FileRules
from kernel.toolbox.way import open_way

MAX_PATH_BYTES = 4096
MAX_NAME_BYTES = 255
MAX_COMPONENTS = 64
MAX_READ_BYTES = 60 * 2**10  # with its note about the rest it fits in what a cell is given of a result
MAX_WRITE_BYTES = 2**20
MAX_LISTED = 1000
MAX_SCANNED = 20_000

UNKNOWN = "unknown"

_RENAMING = threading.Lock()  # from the look at what is there to the rename
_ANY = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_OVERWRITE = os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC
_KINDS = {
    stat.S_IFLNK: "a symbolic link, which is not followed",
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class FileError(Exception):
    """The file cannot be read, listed or written. The message is fit for the model that asked."""


class FileChanged(Exception):
    """There is something else than the write may replace; nothing was written now."""


def read_file(
    workspace: str,
    path: str,
    offset: int = 0,
    limit: int = MAX_READ_BYTES,
    *,
    protected: ProtectedPaths = NOTHING_PROTECTED,
    rules: FileRules = ALL_FILES,
) -> str:
    """UTF-8 text of a file: at most ``limit`` bytes from byte ``offset``.

    A last line in brackets says when there is more. Raises :class:`FileError`.
    """
    if offset < 0 or not 4 <= limit <= MAX_READ_BYTES:
        raise FileError(f"offset must be at least 0, and limit between 4 and {MAX_READ_BYTES}")
    offset, limit = int(offset), int(limit)  # JSON Schema takes 10.0 for an integer
    parents, name = _permitted(path, rules)
    with (
        _told(path),
        _open_parent(workspace, parents, name, protected) as directory,
        _open(name, _ANY, directory) as handle,
    ):
        found = os.fstat(handle)
        _require_regular(path, found)
        _require_size(path, found.st_size, rules)
        if found.st_nlink > 1:
            raise FileError(f"{_shown(path)} has {found.st_nlink} names (hard links) and is not read")
        with _open(f"/proc/self/fd/{handle}", _READ) as file:
            data = _pread(file, limit, offset)
            size = os.fstat(file).st_size
    return _piece(path, data, offset, size)


def list_directory(
    workspace: str,
    path: str = ".",
    *,
    protected: ProtectedPaths = NOTHING_PROTECTED,
    rules: FileRules = ALL_FILES,
) -> str:
    """One line for each entry, sorted: ``name/`` for a directory, ``name  N bytes`` for a file. What may not be used is
    not shown. Raises FileError.
    """
    components = _components(path)
    if not rules.may_enter(components):
        raise FileError(f"{_shown(path)} {rules.against(components)}")
    with (
        _told(path),
        _open_directory(workspace, components, protected) as handle,
        _open(".", _READ | os.O_DIRECTORY, handle) as directory,
        os.scandir(directory) as entries,
    ):
        names: list[str] = []
        more = False
        for entry in entries:
            if len(names) == MAX_SCANNED:
                more = True
                break
            if rules.may_enter((*components, entry.name)):
                names.append(entry.name)
        lines = [_entry_line(directory, name) for name in sorted(names)[:MAX_LISTED]]
    if len(names) > MAX_LISTED:
        lines.append(f"[{len(names)}{' or more' if more else ''} entries, the first {MAX_LISTED} are listed]")
    return "\n".join(lines) if lines else "[empty directory]"


def file_version(
    workspace: str,
    path: str,
    *,
    protected: ProtectedPaths = NOTHING_PROTECTED,
    rules: FileRules = ALL_FILES,
) -> str:
    """What is at ``path``: a digest of the file's first MiB, its size, inode and times, or an :class:`Absence`, whose
    witness is there then.

    :data:`UNKNOWN` when that cannot be found out; so whatever comes of a write there, it is not made again by itself.
    """
    try:
        parents, name = _permitted(path, rules)
        version = ABSENT
        with (
            contextlib.suppress(FileNotFoundError),
            _open_parent(workspace, parents, name, protected) as directory,
        ):
            version = _version(name, directory)
        return _leave_witness(workspace, parents, protected) if version == ABSENT else version
    except (FileError, OSError, ValueError):
        return UNKNOWN


def _leave_witness(workspace: str, parents: list[str], protected: ProtectedPaths) -> str:
    """In the last directory on the way that there is."""
    for depth in range(len(parents), -1, -1):
        with (
            contextlib.suppress(FileNotFoundError),
            _open_directory(workspace, parents[:depth], protected) as directory,
        ):
            if depth < len(parents):
                _refuse_protected("/".join(parents[: depth + 1]), parents[depth], directory, protected)
            absence = new_absence(depth)
            os.close(os.open(absence.witness, _CREATE, 0o666, dir_fd=directory))
            return absence.version
    return UNKNOWN


def _version(name: str, directory: int) -> str:
    try:
        with _open(name, _ANY, directory) as handle:
            found = os.fstat(handle)
            if not stat.S_ISREG(found.st_mode):
                return UNKNOWN
            with _open(f"/proc/self/fd/{handle}", _READ) as file:
                data = _pread(file, MAX_WRITE_BYTES, 0)
    except FileNotFoundError:
        return ABSENT
    facts = (found.st_size, found.st_dev, found.st_ino, found.st_mtime_ns, found.st_ctime_ns)
    return sha256(repr(facts).encode() + data).hexdigest()


def _holds(name: str, directory: int, data: bytes) -> bool:
    with contextlib.suppress(FileNotFoundError), _open(name, _ANY, directory) as handle:
        if stat.S_ISREG(os.fstat(handle).st_mode):
            with _open(f"/proc/self/fd/{handle}", _READ) as file:
                return _pread(file, len(data) + 1, 0) == data
    return False


def write_file(
    workspace: str,
    path: str,
    content: str,
    replaces: str | None = None,
    *,
    looked: str = UNKNOWN,
    protected: ProtectedPaths = NOTHING_PROTECTED,
    rules: FileRules = ALL_FILES,
) -> str:
    """Create or replace a file, with its missing directories. On disk when this returns.

    ``looked``: what :func:`file_version` said before the first attempt, which this is. With ``replaces``, the same for
    an attempt after that, only while that is what is there; nothing is to be done when the file holds just this
    already. Raises :class:`FileError`, :class:`FileChanged`. A witness is gone, whatever comes of it.
    """
    parents, name = _permitted(path, rules)
    known = read_absence(looked if replaces is None else replaces)
    absence = known or new_absence(len(parents))
    with (
        _told(path),
        _open_parent(workspace, parents, name, protected, create=True) as directory,
        _open_place(workspace, parents, directory, absence, protected) as place,
    ):
        data = _encoded(content)
        _require_size(path, len(data), rules)

        def is_replaced() -> bool:
            present = _version(name, directory)
            if known is None:
                return present == replaces != UNKNOWN
            return present == ABSENT and _is_there(absence.witness, place)

        if replaces is not None and not is_replaced():
            if _holds(name, directory, data):
                return f"{_shown(path)} holds these {len(data)} bytes already"
            raise FileChanged(
                f"{_shown(path)} was changed by somebody else after this write had begun; it was not overwritten "
                "now, and it is not known whether this write was done before that"
            )

        def check() -> None:
            if would_mark(directory, name, data):
                raise FileError(
                    f"{_shown(path)} with this content would mark a directory as one of weftos' own"
                )
            if replaces is not None and not is_replaced():
                raise FileChanged(
                    f"{_shown(path)} was changed by somebody else just now; it was not overwritten"
                )

        mode = _mode_to_keep(path, name, directory)
        begin = _open_new if replaces is None or known is None else _open_witness
        with begin(absence.witness, place) as temporary:
            _fill(temporary, data, mode)
            with _RENAMING:
                check()
                os.rename(absence.witness, name, src_dir_fd=place, dst_dir_fd=directory)
        _sync_directory(directory)
    return f"wrote {len(data)} bytes to {_shown(path)}"


def probe_write(
    workspace: str,
    path: str,
    content: str,
    replaces: str,
    *,
    protected: ProtectedPaths = NOTHING_PROTECTED,
) -> Probed:
    """Whether a write has landed before whose first attempt :func:`file_version` said ``replaces``; nobody is at it.

    What was there then is there still: it has not. The witness of an absence is gone, or there is another version, and
    the file holds just this: it has. Raises :class:`FileError`.
    """
    parents, name = _split_file(path)
    data, version, holds = _encoded(content), ABSENT, False
    with _told(path):
        with (
            contextlib.suppress(FileNotFoundError),
            _open_parent(workspace, parents, name, protected) as directory,
        ):
            version, holds = _version(name, directory), _holds(name, directory, data)
        absence = read_absence(replaces)
        there = absence is not None and _has_witness(workspace, parents, absence, protected)
    if there or (version == replaces and replaces not in (UNKNOWN, ABSENT)):
        return Probed("not_landed")
    if holds and replaces != UNKNOWN:
        return Probed("landed", f"wrote {len(data)} bytes to {_shown(path)}")
    return Probed("unknown", why=f"{_shown(path)} is neither as it was before nor as it was to be written")


def _has_witness(workspace: str, parents: list[str], absence: Absence, protected: ProtectedPaths) -> bool:
    with (
        contextlib.suppress(FileNotFoundError),
        _open_directory(workspace, parents[: absence.depth], protected) as place,
    ):
        return _is_there(absence.witness, place)
    return False


def _encoded(content: str) -> bytes:
    try:
        data = content.encode()
    except UnicodeEncodeError:
        raise FileError("the content holds a lone surrogate, which is not text") from None
    if len(data) > MAX_WRITE_BYTES:
        raise FileError(f"the content has {len(data)} bytes, at most {MAX_WRITE_BYTES} are written")
    return data


@contextlib.contextmanager
def _open_place(
    workspace: str, parents: list[str], directory: int, absence: Absence, protected: ProtectedPaths
) -> Iterator[int]:
    """Where the temporary file is, which is there no longer than this: in the file's directory or one above it."""
    with contextlib.ExitStack() as stack:
        if absence.depth == len(parents):
            place = directory
        else:
            place = stack.enter_context(_open_directory(workspace, parents[: absence.depth], protected))
        try:
            yield place
        finally:
            with contextlib.suppress(OSError):
                os.unlink(absence.witness, dir_fd=place)


def _components(path: str) -> list[str]:
    """The names of ``path`` below the workspace. Pure. Raises :class:`FileError` for what could lead out of it."""
    try:
        size = len(path.encode())
    except UnicodeEncodeError:
        raise FileError("the path holds a lone surrogate, which is not text") from None
    if size > MAX_PATH_BYTES:
        raise FileError(f"the path has {size} bytes, at most {MAX_PATH_BYTES} are accepted")
    if any(ord(character) < 32 or ord(character) == 127 for character in path):
        raise FileError(f"the path {_shown(path)} holds a control character")
    if path.startswith("/"):
        raise FileError(f"{_shown(path)} is absolute; give a path inside the workspace, such as notes.txt")
    components = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in components:
        raise FileError(f"{_shown(path)} leads upwards; give a path inside the workspace without ..")
    if len(components) > MAX_COMPONENTS:
        raise FileError(f"the path has {len(components)} components, at most {MAX_COMPONENTS} are accepted")
    for part in components:
        if len(part.encode()) > MAX_NAME_BYTES:
            raise FileError(f"the name {_shown(part)} is over {MAX_NAME_BYTES} bytes")
    return components


def _split_file(path: str) -> tuple[list[str], str]:
    components = _components(path)
    if not components:
        raise FileError(f"{_shown(path)} names no file")
    if path.endswith("/"):
        raise FileError(f"{_shown(path)} names a directory; give the path of a file")
    return components[:-1], components[-1]


def _permitted(path: str, rules: FileRules) -> tuple[list[str], str]:
    """The directories and the name of a file that may be used. Raises :class:`FileError`."""
    parents, name = _split_file(path)
    if why := rules.against((*parents, name)):
        raise FileError(f"{_shown(path)} {why}")
    return parents, name


def _require_size(path: str, size: int, rules: FileRules) -> None:
    if rules.most_bytes and size > rules.most_bytes:
        raise FileError(
            f"{_shown(path)} has {size} bytes, and at most {rules.most_bytes} are read or written (max_file_size_mb)"
        )


@contextlib.contextmanager
def _open(name: str, flags: int, directory: int | None = None, mode: int = 0o777) -> Iterator[int]:
    handle = os.open(name, flags, mode, dir_fd=directory)
    try:
        yield handle
    finally:
        os.close(handle)


@contextlib.contextmanager
def _open_directory(
    workspace: str, components: list[str], protected: ProtectedPaths, *, create: bool = False
) -> Iterator[int]:
    """A descriptor (O_PATH) of the directory below ``workspace``, opened one component at a time."""
    handle = _open_workspace(workspace, protected)
    try:
        if lies_in_ours(handle, protected):
            raise FileError(
                "the workspace lies in a data directory of weftos, or in what decides what the node runs; spawn it "
                "with another one"
            )
        for depth, name in enumerate(components, 1):
            shown = "/".join(components[:depth])
            _refuse_protected(shown, name, handle, protected)
            if create:
                _make_directory(name, handle)
            following = os.open(name, _ANY, dir_fd=handle)
            os.close(handle)
            handle = following
            kind = stat.S_IFMT(os.fstat(handle).st_mode)
            if kind != stat.S_IFDIR:
                raise FileError(f"{_shown(shown)} is {_KINDS.get(kind, 'a file')}, not a directory")
            if is_ours(handle):
                raise FileError(f"{_shown(shown)} is a data directory of weftos, which no workspace shows")
        yield handle
    finally:
        os.close(handle)


@contextlib.contextmanager
def _open_parent(
    workspace: str, parents: list[str], name: str, protected: ProtectedPaths, *, create: bool = False
) -> Iterator[int]:
    """The same, of the directory in which ``name`` is or will be."""
    with _open_directory(workspace, parents, protected, create=create) as directory:
        _refuse_protected("/".join([*parents, name]), name, directory, protected)
        yield directory


def _open_workspace(workspace: str, protected: ProtectedPaths) -> int:
    if not os.path.isabs(workspace):
        raise FileError("this process has no workspace; spawn it with one")
    try:
        return open_way(workspace, protected.own_groups)
    except (OSError, ValueError) as error:
        reason = "is a symbolic link" if os.path.islink(workspace.rstrip("/")) else _reason(error)
        raise FileError(f"the workspace {reason}; it must be an existing directory") from None


def _refuse_protected(shown: str, name: str, directory: int, protected: ProtectedPaths) -> None:
    if protected.covers(directory, name):
        raise FileError(
            f"{_shown(shown)} decides what the node runs or whom it believes; no workspace shows it"
        )


def _make_directory(name: str, parent: int) -> None:
    try:
        os.mkdir(name, 0o777, dir_fd=parent)
    except FileExistsError:
        return
    _sync_directory(parent)


def _sync_directory(handle: int) -> None:
    with _open(".", _READ | os.O_DIRECTORY, handle) as directory:
        os.fsync(directory)


def _pread(file: int, limit: int, offset: int) -> bytes:
    pieces: list[bytes] = []
    while limit > 0:
        piece = os.pread(file, limit, offset)
        if not piece:
            break
        pieces.append(piece)
        limit -= len(piece)
        offset += len(piece)
    return b"".join(pieces)


def _piece(path: str, data: bytes, offset: int, size: int) -> str:
    end = offset + len(data)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        cut_inside_a_character = end < size and error.start > 0 and error.start >= len(data) - 3
        if not cut_inside_a_character:
            at = offset + error.start
            raise FileError(f"{_shown(path)} is not UTF-8 text: byte {at} cannot be decoded") from None
        text = data[: error.start].decode()
        end = offset + error.start
    if offset == 0 and end >= size:
        return text
    more = f"go on with offset {end}" if end < size else "the end"
    return f"{text}\n[bytes {offset} to {end} of {size}; {more}]"


def _entry_line(directory: int, name: str) -> str:
    shown = name.encode("utf-8", "backslashreplace").decode()
    shown = "".join(character if character.isprintable() else ascii(character)[1:-1] for character in shown)
    try:
        found = os.stat(name, dir_fd=directory, follow_symlinks=False)
    except OSError:
        return f"{shown}  [gone]"
    kind = stat.S_IFMT(found.st_mode)
    if kind == stat.S_IFDIR:
        return f"{shown}/"
    return (
        f"{shown}  {found.st_size} bytes"
        if kind == stat.S_IFREG
        else f"{shown}  [{_KINDS.get(kind, 'special')}]"
    )


def _require_regular(path: str, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        kind = _KINDS.get(stat.S_IFMT(found.st_mode), "not a regular file")
        raise FileError(f"{_shown(path)} is {kind}; only regular files are read and written")


def _mode_to_keep(path: str, name: str, directory: int) -> int | None:
    """Permission bits of the file that will be replaced; None when there is none, or another user has set them."""
    try:
        found = os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return None
    _require_regular(path, found)
    return stat.S_IMODE(found.st_mode) & 0o777 if found.st_uid == os.geteuid() else None


@contextlib.contextmanager
def _open_new(name: str, place: int) -> Iterator[int]:
    """An empty file to write into; one that is there already is a witness."""
    try:
        file = os.open(name, _CREATE, 0o666, dir_fd=place)
    except FileExistsError:
        with _open_witness(name, place) as file:
            yield file
        return
    try:
        yield file
    finally:
        os.close(file)


@contextlib.contextmanager
def _open_witness(name: str, place: int) -> Iterator[int]:
    """The same, which must be there."""
    with _open(name, _ANY, place) as handle:
        found = os.fstat(handle)
        _require_regular(name, found)
        if found.st_nlink > 1:
            raise FileError(f"{_shown(name)} has {found.st_nlink} names (hard links) and is not written")
        with _open(f"/proc/self/fd/{handle}", _OVERWRITE) as file:
            yield file


def _is_there(name: str, directory: int) -> bool:
    try:
        os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _fill(file: int, data: bytes, mode: int | None) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]
    if mode is not None:
        os.fchmod(file, mode)
    os.fsync(file)


@contextlib.contextmanager
def _told(path: str) -> Iterator[None]:
    """Translate what the operating system says into a :class:`FileError` about ``path``."""
    try:
        yield
    except (OSError, ValueError) as error:
        raise FileError(f"{_shown(path)}: {_reason(error)}") from None


def _reason(error: OSError | ValueError) -> str:
    if isinstance(error, FileNotFoundError):
        return "does not exist"
    return (error.strerror or "failed").lower() if isinstance(error, OSError) else str(error)


def _shown(path: str) -> str:
    return ascii(path) if len(path) <= 100 else ascii(path[:100]) + "..."

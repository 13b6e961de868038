"""How the files of keys are changed, so that a node that dies at any moment has its keys afterwards.

1. :func:`prepare_keys` writes the new keys, whole and synced, to ``keys.next/``. They sign nothing yet.
2. The entry ``key.rotated`` is committed (:meth:`chain.ledger.ledger.Ledger.rotate`). From here on the new keys count,
   wherever they lie.
3. :func:`adopt_keys` renames ``keys/`` to ``keys.old/`` and ``keys.next/`` to ``keys/``, and destroys what is left.

So at a start :func:`load_candidates` finds one or two whole sets, recovery says by the entries in the journal which
of them is in force, and :func:`adopt_keys` finishes (or clears away) what was begun. ``keys.old/`` counts only when
there is no ``keys/``: keys that the journal does not know yet are never given up for older ones.

Old seeds are overwritten before they are removed. File systems that write elsewhere, and copies, may keep them.
"""

from __future__ import annotations

import secrets
from pathlib import Path

from chain.disk import Disk
from chain.errors import KeyFileError
from chain.keys.keys import (
    ED25519_FILE,
    ML_DSA_65_FILE,
    SEED_BYTES,
    SUCCESSION_FILE,
    VKEYS_FILE,
    Keys,
    key_files,
    load_keys,
    write_files,
)
from chain.keys.rotation import MAX_ROTATIONS, succession_text

KEYS, NEXT, OLD, STAGING = "keys", "keys.next", "keys.old", "keys.next.new"
_MADE_ANEW = frozenset((ED25519_FILE, ML_DSA_65_FILE, VKEYS_FILE, SUCCESSION_FILE))


def prepare_keys(data: Path, old: Keys, disk: Disk) -> Keys:
    """Make the keys that are to follow ``old`` in the data directory, in ``keys.next/``; on the disk on return.

    Whatever else lies in ``keys/`` is copied. Raises :class:`KeyFileError`, OSError.
    """
    if (data / NEXT).exists():
        raise KeyFileError(
            f"{data / NEXT} exists: a change of keys was begun; start the node anew to finish it"
        )
    number = len(old.pairs)
    if number > MAX_ROTATIONS:
        raise KeyFileError(f"the keys were changed {number - 1} times, limit {MAX_ROTATIONS}")
    seeds = secrets.token_bytes(SEED_BYTES), secrets.token_bytes(SEED_BYTES)
    public = Keys(*seeds, old.pairs).ed25519.public_key
    text = succession_text(old.origin, number, old.ed25519.public_key, public)
    new = Keys(*seeds, old.pairs, (*old.succession, old.sign_ed25519(text)))
    kept = [name for name in disk.names(data / KEYS) if name not in _MADE_ANEW]
    _destroy(data / STAGING, disk)
    disk.make_directory(data / STAGING)
    files = {**{name: disk.read(data / KEYS / name) for name in kept}, **key_files(*seeds, new)}
    write_files(data / STAGING, files, disk)
    disk.rename(data / STAGING, data / NEXT)
    disk.sync_directory(data)
    return new


def load_candidates(data: Path) -> tuple[Keys, ...]:
    """The sets of keys in the data directory of which one is in force, ``keys/`` first when it is there.

    Raises :class:`KeyFileError`, which says what to do; never makes new ones.
    """
    if (data / KEYS).exists() or not (data / NEXT).exists():
        first = load_keys(data / KEYS)
        rest = [NEXT]
    else:
        first = load_keys(data / NEXT)
        rest = [OLD]
    others = [keys for name in rest if (keys := _whole(data / name)) is not None]
    return first, *(keys for keys in others if keys.pairs[0] == first.pairs[0])


def public_file(data: Path, disk: Disk) -> str:
    """Where in the data directory the node's verifier keys stand: in ``keys/``, or where a change of keys that was cut
    off between its renames has left them.
    """
    for name in () if disk.is_directory(data / KEYS) else (NEXT, OLD):
        if VKEYS_FILE in disk.names(data / name):
            return f"{name}/{VKEYS_FILE}"
    return f"{KEYS}/{VKEYS_FILE}"


def _whole(directory: Path) -> Keys | None:
    """The keys in ``directory``, None when there are none, or not all of them (any more)."""
    try:
        return load_keys(directory)
    except KeyFileError:
        return None


def adopt_keys(data: Path, keys: Keys, disk: Disk) -> None:
    """Have ``keys/`` hold ``keys``, which are in force, and destroy all others. Raises :class:`KeyFileError`,
    OSError.

    Does nothing when that is so already.
    """
    for name in (KEYS, NEXT, OLD):
        found = _whole(data / name)
        if found is not None and found.pairs == keys.pairs:
            break
    else:
        raise KeyFileError(f"{data} does not hold the keys in force any more: restore it from a copy")
    if name != KEYS:
        if (data / KEYS).exists():
            _destroy(data / OLD, disk)
            disk.rename(data / KEYS, data / OLD)
        disk.rename(data / name, data / KEYS)
    rests = [data / rest for rest in (OLD, NEXT, STAGING) if (data / rest).is_dir()]
    if rests:
        disk.sync_directory(data)  # the names, also those that a killed start gave, before any key goes
    for rest in rests:
        _destroy(rest, disk)


def _destroy(directory: Path, disk: Disk) -> None:
    """Overwrite and remove the files of a set of keys, if it is there. What a power cut leaves of it holds no secret,
    and goes at the next start.
    """
    if not directory.is_dir():
        return
    for name in disk.names(directory):
        path = directory / name
        if name in (ED25519_FILE, ML_DSA_65_FILE):
            handle = disk.open(path)
            try:
                disk.write(handle, 0, bytes(disk.size(path)))
                disk.sync(handle)
            finally:
                disk.close(handle)
        disk.remove(path)
    disk.remove_directory(directory)

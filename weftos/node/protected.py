"""Which files and directories decide what a node runs and whom it believes, and so are shown by no workspace."""

from __future__ import annotations

import contextlib
import os
import site
import sys
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path

import weftos
from kernel.toolbox.data_mark import OPEN_FOLDER
from kernel.toolbox.protected import ProtectedPaths
from weftos.audit.known_heads import config_directory
from weftos.config.config import Config

_OF_PYTHON = ("stdlib", "platstdlib", "purelib", "platlib", "scripts")


def protected_paths(
    data: Path, config: Config, token: Path | None, environment: Mapping[str, str]
) -> ProtectedPaths:
    """Those of a node with this data directory, configuration, join token and environment, with what links lead to."""
    given = (*_configured(config, token), *_linked(data), *_of_environment(environment), *_interpreter())
    return ProtectedPaths(
        each for path in given if path for each in (os.path.abspath(path), os.path.realpath(path))
    )


def _configured(config: Config, token: Path | None) -> Iterator[str]:
    settings = config.settings
    yield from map(str, filter(None, (config.file, token)))
    yield settings.node.ray_token
    for tool in settings.tools.values():
        yield from _code(tool.import_, tool.python_path)
    for behaviour in settings.behaviours.values():
        yield from _code(behaviour.import_, behaviour.python_path)


def _code(imported: str, python_path: Sequence[str]) -> Iterator[str]:
    """With its python_path, where its module is found: elsewhere by a link or an editable installation. Nothing is
    imported.
    """
    yield from python_path
    name = imported.partition(":")[0].partition(".")[0]
    with contextlib.suppress(ImportError, ValueError):
        for spec in (PathFinder.find_spec(name, python_path), find_spec(name)):
            if spec is not None:
                yield from spec.submodule_search_locations or ()
                yield (spec.origin if spec.has_location else None) or ""


def _linked(data: Path) -> Iterator[str]:
    """What of the data directory lies elsewhere, where nothing marks it."""
    return (str(each) for each in data.iterdir() if each.is_symlink() and each.name != OPEN_FOLDER)


def _of_environment(environment: Mapping[str, str]) -> Iterator[str]:
    yield environment.get("SSL_CERT_FILE", "")
    for name in ("SSL_CERT_DIR", "LD_LIBRARY_PATH"):
        yield from environment.get(name, "").split(os.pathsep)
    with contextlib.suppress(RuntimeError):  # a user without a home
        yield str(config_directory(environment))


def _interpreter() -> Iterator[str]:
    """Python, what it loads before anything else, and weftos."""
    yield from sys.path
    yield from (sysconfig.get_path(name) for name in _OF_PYTHON)
    yield str(Path(weftos.__file__).parent.parent)
    yield sys.executable
    yield os.path.join(sys.prefix, "pyvenv.cfg")
    yield sys.pycache_prefix or ""
    yield site.getusersitepackages() if site.ENABLE_USER_SITE else ""

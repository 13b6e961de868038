"""Which files and directories decide what a node runs and whom it believes: shown by no workspace, changed by no other
user.
"""

from __future__ import annotations

import contextlib
import os
import site
import sys
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from pathlib import Path

import weftos
from kernel.toolbox.data_mark import OPEN_FOLDER
from kernel.toolbox.protected import ProtectedPaths
from weftos.audit.known_heads import config_directory
from weftos.config.config import Config
from weftos.ownership import others_fault, own_groups

_OF_PYTHON = ("stdlib", "platstdlib", "purelib", "platlib", "scripts")


def protected_paths(
    data: Path, config: Config, token: Path | None, environment: Mapping[str, str]
) -> ProtectedPaths:
    """Those of a node with this data directory, configuration, join token and environment, with what links lead to."""
    named = (*_configured(config, token), *_certificates(environment))
    elsewhere = (*_installed(config), *_linked(data), *_of_environment(environment), *_interpreter())
    paths = (
        each
        for path in (*(path for _, path in named), *elsewhere)
        if path
        for each in (os.path.abspath(path), os.path.realpath(path))
    )
    return ProtectedPaths(paths, own_groups())


def others_faults(config: Config, token: Path | None, environment: Mapping[str, str]) -> tuple[str, ...]:
    """By what names it, each of the files and directories so named that another user, but root, could change, and how.

    The installation is not asked: it has decided already, by what runs here.
    """
    found: dict[str, str] = {}
    for name, path in (*_configured(config, token), *_certificates(environment)):
        if path and (fault := others_fault(Path(path))):
            found.setdefault(fault, f"{name}: {fault}")
    return tuple(found.values())


def _configured(config: Config, token: Path | None) -> Iterator[tuple[str, str]]:
    settings = config.settings
    yield "the configuration", str(config.file or "")
    yield from (("--app", str(app)) for app in config.apps)
    yield "--token", str(token or "")
    yield "node.ray_token", settings.node.ray_token
    for name, provider in settings.providers.items():
        yield f"providers.{name}.api_key_file", provider.api_key_file
    for name, tool in settings.tools.items():
        for path in _code(tool.import_, tool.python_path):
            yield f"tools.{name}.python_path", path
    for name, behaviour in settings.behaviours.items():
        for path in _code(behaviour.import_, behaviour.python_path):
            yield f"behaviours.{name}.python_path", path


def _code(imported: str, python_path: Sequence[str]) -> Iterator[str]:
    """The python_path, and where in it the module and what is around it is found, compiled too. Nothing is imported."""
    yield from python_path
    locations = python_path
    for part in imported.partition(":")[0].split("."):
        spec = PathFinder.find_spec(part, locations)
        if spec is None:
            return
        yield from _found(spec)
        locations = list(spec.submodule_search_locations or ())


def _installed(config: Config) -> Iterator[str]:
    """Where modules of tools and behaviours are found without a python_path: elsewhere by an editable installation."""
    settings = config.settings
    imported = [tool.import_ for tool in settings.tools.values()]
    imported += [behaviour.import_ for behaviour in settings.behaviours.values()]
    for name in imported:
        with contextlib.suppress(ImportError, ValueError):
            if spec := find_spec(name.partition(":")[0].partition(".")[0]):
                yield from _found(spec)


def _found(spec: ModuleSpec) -> Iterator[str]:
    yield from spec.submodule_search_locations or ()
    if spec.has_location:
        yield spec.origin or ""
        yield spec.cached or ""


def _linked(data: Path) -> Iterator[str]:
    """What of the data directory lies elsewhere, where nothing marks it."""
    return (str(each) for each in data.iterdir() if each.is_symlink() and each.name != OPEN_FOLDER)


def _certificates(environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    yield "SSL_CERT_FILE", environment.get("SSL_CERT_FILE", "")
    for path in environment.get("SSL_CERT_DIR", "").split(os.pathsep):
        yield "SSL_CERT_DIR", path


def _of_environment(environment: Mapping[str, str]) -> Iterator[str]:
    yield from environment.get("LD_LIBRARY_PATH", "").split(os.pathsep)
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

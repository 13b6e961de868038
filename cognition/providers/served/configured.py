"""What the configuration says of a model server, checked, and the server that it makes."""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from urllib.parse import urlsplit

from cognition.errors import ConfigurationError
from cognition.providers.base import ProviderBounds, Source
from cognition.providers.http.server import CERTIFICATE_VARIABLES, tls_context
from cognition.providers.served.dialect import Dialect
from cognition.providers.served.key_file import read_key_file
from cognition.providers.served.served import Served
from cognition.providers.served.settings import ServerSettings

MOST_PARALLEL = 1_024
_KEYS: Mapping[str, type | tuple[type, ...]] = {
    "base_url": str,
    "model": str,
    "api_key_env": str,
    "api_key_file": str,
    "stream": bool,
    "timeout_s": (int, float),
    "parallel": int,
    "breaker_failures": int,
    "breaker_open_s": (int, float),
}


def build_served(source: Source, dialect: Dialect) -> Served:
    """The server that a table speaks of. Raises :class:`ConfigurationError`."""
    name, given = source.name, dict(source.table)
    for key, value in given.items():
        if not isinstance(value, _KEYS.get(key, ())):
            raise ConfigurationError(f"providers.{name}.{key} is unknown or of the wrong type")
    if "base_url" not in given:
        raise ConfigurationError(f"providers.{name}.base_url is missing")
    timeout_s = float(given.pop("timeout_s", ProviderBounds().total_s))
    parallel = given.pop("parallel", ProviderBounds().parallel)
    if type(parallel) is not int or not 1 <= parallel <= MOST_PARALLEL:
        raise ConfigurationError(f"providers.{name}.parallel is {parallel}, must be 1 to {MOST_PARALLEL}")
    failures = given.pop("breaker_failures", ProviderBounds().breaker_failures)
    if type(failures) is not int or failures < 0:
        raise ConfigurationError(f"providers.{name}.breaker_failures is {failures}, must be 0 or more")
    open_s = float(given.pop("breaker_open_s", ProviderBounds().breaker_open_s))
    file = given.pop("api_key_file", "")
    settings = ServerSettings(name, **given)
    faults = settings.check()
    if faults:
        raise ConfigurationError("; ".join(faults))
    key, variable = "", settings.api_key_env
    if file:
        key = check_key(name, file, read_key_file(name, file))
    elif variable:
        key = check_key(name, variable, source.keys.get(variable, ""))
    tls = _tls(name) if urlsplit(settings.base_url).scheme == "https" else None
    bounds = ProviderBounds(
        total_s=timeout_s, parallel=parallel, breaker_failures=failures, breaker_open_s=open_s
    )
    return Served(dialect, settings, key, bounds=bounds, tls=tls)


def _tls(name: str) -> ssl.SSLContext:
    try:
        return tls_context(os.environ)
    except OSError as error:
        set_to = " ".join(f"{v}={os.environ[v]}" for v in CERTIFICATE_VARIABLES if v in os.environ)
        raise ConfigurationError(
            f"provider {name}: no certificates can be read with {set_to}: {error.strerror or error}"
        ) from error


def check_key(name: str, place: str, key: str) -> str:
    """``key`` without blanks around it; ``place``: the variable or the file that holds it. Raises
    :class:`ConfigurationError`, which never shows it.
    """
    key = key.strip()
    if not key:
        empty = f"{place} holds no key" if "/" in place else f"the node's environment has no {place}"
        raise ConfigurationError(f"provider {name}: {empty}; set it and restart")
    if not (key.isascii() and key.isprintable()):
        raise ConfigurationError(f"provider {name}: {place} holds characters that a key cannot have")
    return key

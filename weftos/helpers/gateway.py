"""The gateway process, borne by the node's nursery (:mod:`kernel.helper.nursery`). Wiring only.

It is told ``{"config": CONFIG, "keys": {VARIABLE: KEY}}``. CONFIG: ``{"default": NAME, "default_model": MODEL,
"providers": {NAME: TABLE}}``, a table being ``{"kind": "offline"}`` or ``{"kind": "openai", "base_url", "model",
"api_key_env", "stream", "timeout_s"}``. It is closed to all others of its user from its birth, and the keys leave it
only towards their server.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import ssl
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from cognition.errors import ConfigurationError
from cognition.gateway import Gateway, Notify
from cognition.providers.base import Provider, ProviderBounds, Unusable
from cognition.providers.http import CERTIFICATE_VARIABLES, tls_context
from cognition.providers.offline import Offline
from cognition.providers.openai_compatible import OpenAICompatible, OpenAISettings, check_key
from kernel.helper.helper import serve_link

OFFLINE = "offline"
_LOADED_LATE = ("concurrent.futures.thread", "encodings.idna")
_OPENAI_KEYS: dict[str, type | tuple[type, ...]] = {
    "base_url": str,
    "model": str,
    "api_key_env": str,
    "stream": bool,
    "timeout_s": (int, float),
}

for _module in _LOADED_LATE:  # by the first request for a name, were they not here when there is no key yet
    importlib.import_module(_module)


def build_providers(tables: Mapping[str, Any], keys: Mapping[str, str]) -> dict[str, Provider]:
    """One provider for each table, and ``offline`` always.

    One that is configured wrongly says so when asked.
    """
    providers: dict[str, Provider] = {OFFLINE: Offline()}
    for name, table in tables.items():
        try:
            providers[name] = _build(name, table, keys)
        except ConfigurationError as error:
            providers[name] = Unusable(str(error))
    return providers


def _build(name: str, table: Any, keys: Mapping[str, str]) -> Provider:
    if not isinstance(table, dict):
        raise ConfigurationError(f"providers.{name} must be a table")
    given = {key: value for key, value in table.items() if value is not None}
    kind = given.pop("kind", "openai")
    if kind == OFFLINE:
        return Offline()
    if kind != "openai":
        raise ConfigurationError(f"providers.{name}.kind is {kind!r}; known: openai, offline")
    for key, value in given.items():
        if not isinstance(value, _OPENAI_KEYS.get(key, ())):
            raise ConfigurationError(f"providers.{name}.{key} is unknown or of the wrong type")
    if "base_url" not in given:
        raise ConfigurationError(f"providers.{name}.base_url is missing")
    timeout_s = float(given.pop("timeout_s", ProviderBounds().total_s))
    settings = OpenAISettings(name, **given)
    faults = settings.check()
    if faults:
        raise ConfigurationError("; ".join(faults))
    variable = settings.api_key_env
    key = check_key(name, variable, keys.get(variable, "")) if variable else ""
    tls = _tls(name) if urlsplit(settings.base_url).scheme == "https" else None
    return OpenAICompatible(settings, key, bounds=ProviderBounds(total_s=timeout_s), tls=tls)


def _tls(name: str) -> ssl.SSLContext:
    try:
        return tls_context(os.environ)
    except OSError as error:
        set_to = " ".join(f"{v}={os.environ[v]}" for v in CERTIFICATE_VARIABLES if v in os.environ)
        raise ConfigurationError(
            f"provider {name}: no certificates can be read with {set_to}: {error.strerror or error}"
        ) from error


async def serve(config: Mapping[str, Any], keys: Mapping[str, str], link_fd: int, boot: int) -> None:
    """Serve one link until its end."""
    told: list[Notify] = []
    gateway = Gateway(
        build_providers(config.get("providers", {}), keys),
        config.get("default") or OFFLINE,
        lambda op, args: told[0](op, args),
        config.get("default_model") or "",
    )
    try:
        await serve_link(link_fd, boot, gateway.handle, told.append)
    finally:
        await gateway.close()


def main(told: bytes, link_fd: int, boot: int) -> int:
    """The whole life of the process; its exit status."""
    document = json.loads(told)
    asyncio.run(serve(document["config"], document["keys"], link_fd, boot))
    return 0

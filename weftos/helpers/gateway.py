"""The gateway process, borne by the node's nursery (:mod:`kernel.helper.nursery`). Wiring only.

It is told ``{"config": CONFIG, "keys": {VARIABLE: KEY}}``, and another CONFIG by ``configure``. CONFIG: ``{"default":
NAME, "default_model": MODEL, "providers": {NAME: TABLE}}``; the ``kind`` of a table says who builds its provider
(:data:`weftos.config.provider_kinds.KINDS`). It is closed to all others of its user from its birth, and the keys leave
it only towards their server.
"""

from __future__ import annotations

import asyncio
import importlib
import json
from collections.abc import Callable, Mapping
from typing import Any

from cognition.errors import ConfigurationError
from cognition.gateway import Gateway, Notify
from cognition.providers.base import Provider, Source, Unusable
from cognition.providers.offline import Offline
from kernel.helper.helper import serve_link
from weftos.config.provider_kinds import KINDS

OFFLINE = "offline"
_LOADED_LATE = ("concurrent.futures.thread", "encodings.idna")

for _module in _LOADED_LATE:  # by the first request for a name, were they not here when there is no key yet
    importlib.import_module(_module)


def _builder(place: str) -> Callable[[Source], Provider]:
    module, _, name = place.partition(":")
    built: Callable[[Source], Provider] = getattr(importlib.import_module(module), name)
    return built


BUILDERS = {name: _builder(kind.builder) for name, kind in KINDS.items()}
"""Loaded at once: what serves closed is borne of a process that has all of it."""


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
    if not isinstance(kind, str) or kind not in BUILDERS:
        raise ConfigurationError(f"providers.{name}.kind is {kind!r}; known: {', '.join(BUILDERS)}")
    return BUILDERS[kind](Source(name, given, keys))


def _asked(config: Mapping[str, Any], keys: Mapping[str, str]) -> tuple[dict[str, Provider], str, str]:
    """The providers of a configuration, the default one, and its default model."""
    providers = build_providers(config.get("providers", {}), keys)
    return providers, config.get("default") or OFFLINE, config.get("default_model") or ""


async def serve(config: Mapping[str, Any], keys: Mapping[str, str], link_fd: int, boot: int) -> None:
    """Serve one link until its end."""
    told: list[Notify] = []
    providers, default, model = _asked(config, keys)
    gateway = Gateway(providers, default, lambda op, args: told[0](op, args), model)

    async def handle(op: str, args: dict[str, Any]) -> Any:
        if op == "configure":  # the files of keys are read anew
            gateway.change(*_asked(args, keys))
            return {}
        return await gateway.handle(op, args)

    try:
        await serve_link(link_fd, boot, handle, told.append)
    finally:
        await gateway.close()


def main(told: bytes, link_fd: int, boot: int) -> int:
    """The whole life of the process; its exit status."""
    document = json.loads(told)
    asyncio.run(serve(document["config"], document["keys"], link_fd, boot))
    return 0

"""The gateway process: ``python -P -m weftos.gateway --config-json JSON --link-fd N --boot B``. Wiring only.

JSON: ``{"default": NAME, "default_model": MODEL, "providers": {NAME: TABLE}}``, a table being ``{"kind":
"offline"}`` or ``{"kind": "openai", "base_url", "model", "api_key_env", "stream", "timeout_s"}``. It holds names
of variables and never a key: it stands in an argv. The keys themselves come over the link, as the notice ``keys
{VARIABLE: KEY}``, once this process has closed itself to all others of its user and said so (``sealed``); they leave it
only towards their server.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cognition.errors import CognitionError, ConfigurationError
from cognition.gateway import Gateway
from cognition.providers.base import Provider, ProviderBounds, Unusable
from cognition.providers.offline import Offline
from cognition.providers.openai_compatible import OpenAICompatible, OpenAISettings, check_key
from kernel.helper import die_with_parent, serve_link
from weftos.sealed_environment import KEYS, SEALED, close_to_others

OFFLINE = "offline"
_OPENAI_KEYS: dict[str, type | tuple[type, ...]] = {
    "base_url": str,
    "model": str,
    "api_key_env": str,
    "stream": bool,
    "timeout_s": (int, float),
}


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
    return OpenAICompatible(settings, key, bounds=ProviderBounds(total_s=timeout_s))


class KeyedGateway:
    """A gateway that is made when its keys have come; what is asked before waits for that."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._config = config
        self._gateway: asyncio.Future[Gateway] = asyncio.get_running_loop().create_future()
        self._notify: Callable[[str, dict[str, Any]], None] = lambda op, args: None

    def opened(self, notify: Callable[[str, dict[str, Any]], None]) -> None:
        """The link is there: ask for the keys."""
        self._notify = notify
        notify(SEALED, {})

    async def handle(self, op: str, args: dict[str, Any]) -> Any:
        if op != KEYS:
            return await (await asyncio.shield(self._gateway)).handle(op, args)
        if not self._gateway.done():
            self._gateway.set_result(
                Gateway(
                    build_providers(self._config.get("providers", {}), args),
                    self._config.get("default") or OFFLINE,
                    self._notify,
                    self._config.get("default_model") or "",
                )
            )
        return None

    async def close(self) -> None:
        if self._gateway.done():
            await self._gateway.result().close()


async def serve(config: Mapping[str, Any], link_fd: int, boot: int) -> None:
    """Serve one link until its end."""
    gateway = KeyedGateway(config)
    try:
        await serve_link(link_fd, boot, gateway.handle, gateway.opened)
    finally:
        await gateway.close()


def main(argv: Sequence[str] | None = None) -> int:
    """Run the process. Exit status 2 for a configuration that is not JSON of the right shape."""
    parser = argparse.ArgumentParser(prog="weftos.gateway")
    parser.add_argument("--config-json", required=True)
    parser.add_argument("--link-fd", type=int, required=True)
    parser.add_argument("--boot", type=int, required=True)
    arguments = parser.parse_args(argv)
    die_with_parent()
    close_to_others()
    try:
        config = json.loads(arguments.config_json)
        if not isinstance(config, dict) or not isinstance(config.get("providers", {}), dict):
            raise CognitionError("it must be an object with an object providers")
    except (ValueError, CognitionError) as error:
        print(f"gateway: --config-json cannot be used: {error}", file=sys.stderr)
        return 2
    asyncio.run(serve(config, arguments.link_fd, arguments.boot))
    return 0


if __name__ == "__main__":
    sys.exit(main())

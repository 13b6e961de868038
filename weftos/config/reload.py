"""Which settings a running node takes over from a file that has changed, and which have to wait for a restart. Pure.

The table says it of every key; a configuration that is reloaded is the one in force with those keys of the other. That
has to fit together by itself, or nothing is taken.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from pydantic import ValidationError

from weftos.config.access import access_faults
from weftos.config.config import Config, ConfigError, Origin
from weftos.config.routing import routing_faults
from weftos.config.settings import Settings

NEXT_TURN, AT_ONCE = "from the next turn of each process on", "at once"
RELOADS: Mapping[str, str] = {
    "agent": NEXT_TURN,
    "guard": NEXT_TURN,
    "memory.budget_tokens": NEXT_TURN,
    "routing.mode": NEXT_TURN,
    "routing.tiers": "from the next turn on; what may be asked, at once",
    "routing.permissions": "from the next turn on; what may be asked, at once",
    "routing.budgets": AT_ONCE,
    "identities": "from the next message on",
    "permissions": "from the next message on",
    "rate_limits": "from the next message on",
    "models": "from the next turn on; prices, at once",
    "model.default_provider": AT_ONCE,
    "model.default_model": AT_ONCE,
    "providers.NAME.base_url": AT_ONCE,
    "providers.NAME.model": AT_ONCE,
    "providers.NAME.stream": AT_ONCE,
    "providers.NAME.timeout_s": AT_ONCE,
    "providers.NAME.parallel": AT_ONCE,
    "providers.NAME.breaker_failures": AT_ONCE,
    "providers.NAME.breaker_open_s": AT_ONCE,
    "providers.NAME.prices": AT_ONCE,
}
"""By the key, or the table, when a change of it acts. What is not here needs a restart."""
NOT_RELOADED = ("agent.trace",)
"""Tables inside of those that need one all the same."""
_WHOLE = "guard", "models", "model", "identities", "permissions", "rate_limits"
_OF_PROVIDERS = tuple(key.rpartition(".")[2] for key in RELOADS if key.startswith("providers."))


@dataclass(frozen=True, slots=True)
class Reloaded:
    """``config``: what is in force from now on. ``changed``: the keys that are other ones than before; ``waiting``:
    those that need a restart.
    """

    config: Config
    changed: tuple[str, ...]
    waiting: tuple[str, ...]


def when(key: str) -> str:
    """When a change of a key acts; empty: after a restart."""
    if any(key == each or key.startswith(f"{each}.") for each in NOT_RELOADED):
        return ""
    for known, at in RELOADS.items():
        pattern = known.replace("NAME", "*")
        if fnmatchcase(key, pattern) or fnmatchcase(key, f"{pattern}.*"):
            return at
    return ""


def reloaded(old: Config, new: Config) -> Reloaded:
    """Raises ConfigError when what can be reloaded does not fit what needs a restart."""
    settings = _mixed(old.settings, new.settings)
    origins: dict[str, Origin] = {key: each for key, each in old.origins.items() if not when(key)}
    origins |= {key: each for key, each in new.origins.items() if when(key)}
    config = Config(settings, origins, old.file, old.apps)
    return Reloaded(config, tuple(_differ(old, config)), tuple(_differ(config, new)))


def _mixed(old: Settings, new: Settings) -> Settings:
    kept, wanted = old.model_dump(by_alias=True), new.model_dump(by_alias=True)
    values = {**kept, **{name: wanted[name] for name in _WHOLE}}
    values["memory"] = {**kept["memory"], "budget_tokens": wanted["memory"]["budget_tokens"]}
    for table in ("agent", "routing"):
        values[table] = {
            **{key: each for key, each in wanted[table].items() if when(f"{table}.{key}")},
            **{key: each for key, each in kept[table].items() if not when(f"{table}.{key}")},
        }
    values["providers"] = {
        name: {**table, **{key: wanted["providers"].get(name, table)[key] for key in _OF_PROVIDERS}}
        for name, table in kept["providers"].items()
    }
    try:
        settings = Settings.model_validate(values)
    except ValidationError as error:
        raise ConfigError(*(f"{_UNFIT}: {each['msg']}" for each in error.errors(include_url=False))) from None
    told = *routing_faults(settings), *access_faults(settings)
    if faults := [f"{_UNFIT}: {words}" for _, words in told]:
        raise ConfigError(*faults)
    return settings


_UNFIT = "what can be reloaded does not fit what needs a restart, so nothing was changed"


def _differ(before: Config, after: Config) -> Iterator[str]:
    """The keys whose values are not the same."""
    old = {each["key"]: each["value"] for each in before.view()}
    new: dict[str, Any] = {each["key"]: each["value"] for each in after.view()}
    for key in dict.fromkeys((*old, *new)):
        if old.get(key) != new.get(key) or (key in old) != (key in new):
            yield key

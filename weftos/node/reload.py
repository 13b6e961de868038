"""``weftos config reload``: the configuration is read again, and what of it a running node can take over is."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kernel.budget.price import Price
from kernel.cells.launcher import BehaviourEntry
from kernel.errors import Invalid, KernelError, Unavailable
from kernel.helper.helper import Answered
from kernel.helper.helpers import LinkedHelper
from kernel.operations.node import Reloaded, Setting
from kernel.policy.proposal import Facts, Proposal, Verdict
from kernel.policy.routes import RoutesGate
from kernel.policy.terms import Terms
from weftos.config.config import Config
from weftos.config.config_file import ConfigError
from weftos.config.reload import reloaded
from weftos.config.routing import price_of, route_rights
from weftos.config.settings import Settings
from weftos.config.terms import terms_of


class Behaviours(Mapping[str, BehaviourEntry]):
    """Those that are configured now."""

    def __init__(self, entries: Mapping[str, BehaviourEntry]) -> None:
        self._entries = dict(entries)

    def __getitem__(self, name: str) -> BehaviourEntry:
        return self._entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def change(self, entries: Mapping[str, BehaviourEntry]) -> None:
        """Those that are the same stay the very same."""
        same = {name: self._entries.get(name) for name in entries}
        self._entries = {
            name: was if (was := same[name]) == entry else entry for name, entry in entries.items()
        }


class Routes:
    """The gate of routes, as it is configured now."""

    def __init__(self, settings: Settings) -> None:
        self._gate = RoutesGate(route_rights(settings))

    def change(self, settings: Settings) -> None:
        self._gate = RoutesGate(route_rights(settings))

    def __call__(self, proposal: Proposal, facts: Facts) -> Verdict | None:
        return self._gate(proposal, facts)


class NodeGateway:
    """The gateway as the model calls see it."""

    def __init__(self, helper: LinkedHelper, settings: Settings) -> None:
        self._helper = helper
        self._settings = settings
        self._changed = False
        self._telling: set[asyncio.Task[Any]] = set()

    def ask(self, request: dict[str, Any], answered: Answered) -> Callable[[], object]:
        return self._helper.call("ask", request, answered)

    def cancel(self, stream: str) -> None:
        self._helper.notify("cancel", {"stream_id": stream})

    def forget(self) -> None:
        self._helper.notify("forget", {})

    def resolve(self, provider: str, model: str) -> tuple[str, str]:
        """The configured defaults in place of an empty provider or model, as the gateway applies them."""
        chosen = self._settings.model
        known = self._settings.providers.get(provider or chosen.default_provider)
        if not provider:
            model = model or chosen.default_model
        return provider or chosen.default_provider, model or (known.model if known is not None else "")

    def price(self, provider: str, model: str) -> Price | None:
        """What the configuration says that a resolved model costs."""
        return price_of(self._settings, provider, model)

    async def change(self, settings: Settings) -> None:
        """The gateway asks as these say from now on, with the keys that its files hold by now. One that is down is told
        when it is up.
        """
        self._settings, self._changed = settings, True
        with contextlib.suppress(KernelError):
            await self._helper.request("configure", settings.gateway())

    def is_up(self) -> None:
        """A gateway runs: it knows what the first one was told."""
        if self._changed:
            task = asyncio.get_running_loop().create_task(self.change(self._settings))
            self._telling.add(task)
            task.add_done_callback(self._telling.discard)


class Reload:
    """``load`` reads the configuration again; ``faults(config)`` says who else could change what it names;
    ``behaviours_of(config)`` are the behaviours that it has.
    """

    def __init__(
        self,
        config: Config,
        load: Callable[[], Config],
        faults: Callable[[Config], tuple[str, ...]],
        behaviours_of: Callable[[Config], Mapping[str, BehaviourEntry]],
        behaviours: Behaviours,
        routes: Routes,
        terms: Terms,
        gateway: NodeGateway,
        log: Callable[..., None],
    ) -> None:
        self._config = config
        self._load = load
        self._faults = faults
        self._behaviours_of = behaviours_of
        self._behaviours = behaviours
        self._routes = routes
        self._terms = terms
        self._gateway = gateway
        self._log = log
        self._tasks: set[asyncio.Task[Any]] = set()
        self._one = asyncio.Lock()

    def view(self) -> list[Setting]:
        """Every setting in force."""
        return self._config.view()

    async def __call__(self, record: Callable[..., object]) -> Reloaded:
        """``record(changed=..., needs_restart=...)`` says that it is about to be done. Raises Invalid with every fault;
        then nothing is changed.
        """
        async with self._one:
            try:
                new = await asyncio.to_thread(self._load)
                if others := self._faults(new):
                    raise ConfigError(*others)
                found = reloaded(self._config, new)
            except ConfigError as error:
                raise Invalid(str(error)) from None
            record(changed=list(found.changed), needs_restart=list(found.waiting))
            self._config = found.config
            self._behaviours.change(self._behaviours_of(found.config))
            self._routes.change(found.config.settings)
            self._terms.change(terms_of(found.config.settings))
            await self._gateway.change(found.config.settings)
            return {"changed": list(found.changed), "needs_restart": list(found.waiting)}

    def hang_up(self, record: Callable[..., object]) -> None:
        """The same for a signal; what came of it is in the log."""
        task = asyncio.get_running_loop().create_task(self._logged(record))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _logged(self, record: Callable[..., object]) -> None:
        try:
            done = await self(record)
        except (Invalid, Unavailable) as error:
            self._log("error", "the configuration was not reloaded", why=str(error))
        else:
            self._log("info", "the configuration was reloaded", **done)

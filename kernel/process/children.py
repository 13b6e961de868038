"""What an agent makes: a child that has nothing the agent has not itself.

What is not said the child has as its maker has it. What goes beyond is refused, never cut down in silence: tools beyond
those of the turn and behaviours by the gates (:mod:`kernel.policy.capability`), which hold every spawn, the rest here.
A budget comes out of the maker's when the slot is written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kernel.errors import CapabilityError, Invalid
from kernel.model.capability import handed_down, may_make, tools_of
from kernel.model.spec import DEFAULT_TOOLS, ProcessSpec
from kernel.operations.rights.budgets import Budget, read_budget
from kernel.operations.rights.capabilities import Capabilities, read_capabilities
from kernel.operations.spawning import Isolation

ITS_MODEL = ("provider", "model")


@dataclass(frozen=True, slots=True)
class Known:
    """A behaviour that is configured: where its processes run unless it is said, and what each of them is told."""

    isolation: Isolation
    config: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Maker:
    """An agent in a turn: its spec, its address, and the tools that the turn may use."""

    spec: ProcessSpec
    address: str
    rights: frozenset[str]


def made_by_agent(maker: Maker, asked: Mapping[str, Any], known: Mapping[str, Known]) -> ProcessSpec:
    """The child that is asked for, in the words of the tool ``spawn_agent``. Raises CapabilityError, Invalid."""
    own, held = maker.spec, maker.spec.capabilities
    behaviour = asked.get("behaviour", own.behaviour)
    if not may_make(held, own.behaviour, behaviour):
        some = ", ".join((own.behaviour, *(held.behaviours or ())))
        raise CapabilityError(f"a child of {maker.address} may be of behaviour {some}, not of {behaviour}")
    entry = known.get(behaviour)
    if entry is None:
        raise Invalid(f"behaviour {behaviour!r} is not configured; leave it out for {own.behaviour}")
    tools = asked["tools"] if "tools" in asked else frozenset(DEFAULT_TOOLS) & maker.rights
    return ProcessSpec(
        name=asked["name"],
        behaviour=behaviour,
        restart=asked.get("restart", "transient"),
        on_logical=asked.get("on_logical", "restart"),
        isolation=_isolation(maker, asked.get("isolation"), behaviour, entry.isolation),
        tools=tuple(sorted(tools_of(tools, (), maker.rights))),  # a pattern means what of it this turn has
        workspace=own.workspace,
        config=_config(own, behaviour, entry.config, asked),
        capabilities=handed_down(held, maker.address, _capabilities(asked)),
        budget=_budget(asked),
        turn_timeout_s=own.turn_timeout_s,
    )


def _isolation(maker: Maker, asked: Isolation | None, behaviour: str, configured: Isolation) -> Isolation:
    """A cell of its own as its maker has it, or as another behaviour wants it. Raises CapabilityError."""
    own = maker.spec.isolation
    least = configured if behaviour != maker.spec.behaviour and own == "shared" else own
    wanted = asked or least
    if wanted == "shared" and least == "dedicated":
        whose = maker.address if own == "dedicated" else f"behaviour {behaviour}"
        raise CapabilityError(f"{whose} has cells of its own: leave isolation out")
    if wanted == "dedicated" and not _may_part(maker.spec):
        raise CapabilityError(
            f"{maker.address} may not give its children cells of their own (capability dedicated)"
        )
    return wanted


def _may_part(maker: ProcessSpec) -> bool:
    """Whether it may give a child a cell of its own."""
    return maker.isolation == "dedicated" or maker.capabilities.dedicated is True


def _config(
    own: ProcessSpec, behaviour: str, configured: Mapping[str, Any], asked: Mapping[str, Any]
) -> dict[str, Any]:
    """It asks the model that its maker asks. What is configured of another behaviour stays as it is."""
    others = behaviour != own.behaviour
    config = {
        key: own.config[key] for key in ITS_MODEL if key in own.config and not (others and key in configured)
    }
    return {**config, "system_prompt": asked["system_prompt"]} if "system_prompt" in asked else config


def _capabilities(asked: Mapping[str, Any]) -> Capabilities:
    try:
        return read_capabilities(asked.get("capabilities", {}))
    except ValueError as error:
        raise Invalid(str(error)) from error


def _budget(asked: Mapping[str, Any]) -> Budget | None:
    try:
        return read_budget(asked["budget"]) if "budget" in asked else None
    except ValueError as error:
        raise Invalid(str(error)) from error

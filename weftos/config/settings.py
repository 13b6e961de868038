"""Every setting of a node: sections, keys, types and defaults, and what a value must be.

Here is only what a setting *is*. Where values come from, and in which order of force, is ``weftos.config.config``.
A secret is never a value: a provider names the environment variable that holds its key.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from cognition.config.guard_config import GuardConfig
from cognition.config.routing_config import RoutingConfig
from cognition.config.trace_config import NodesAgentConfig
from kernel.bounds import Bounds
from kernel.bounds import check as check_bounds
from kernel.budget.price import NOTHING, Price
from kernel.operations.rights.money import millionths
from kernel.operations.spawning import Isolation
from weftos.config.access import IdentitySettings, PermissionSettings, RateLimitSettings
from weftos.config.provider_kinds import KINDS
from weftos.config.section import Name, Section, matches

_BOUNDS = Bounds()
LEXICAL = "lexical"

_TOOL = re.compile(r"\*|[A-Za-z0-9_.-]{1,64}")
_PETNAME = re.compile(r"[a-zA-Z0-9._-]{0,64}")
_IMPORT = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")
_ORIGIN = re.compile(r"weftos-[a-z2-7]{26}")
_VARIABLE = re.compile(r"([A-Z_][A-Z0-9_]{0,127})?")
_HOW_PROGRAMS_RUN = re.compile(
    r"(LD_|PYTHON|WEFTOS|RAY_|GLIBC_|MALLOC_).*|PATH|HOME|LANG|LC_.*|TZ|TMPDIR|IFS"
)
_HOST_PORT = re.compile(r"(\[[0-9a-fA-F:]+\]|[A-Za-z0-9.-]+):([0-9]{1,5})")


ImportString = Annotated[str, Field(max_length=256), matches(_IMPORT, 'must be "module:name"')]
VariableName = Annotated[
    str, matches(_VARIABLE, "must be the NAME of an environment variable (capitals), not the key itself")
]


def _for_a_tool(name: str) -> str:
    if not name or _HOW_PROGRAMS_RUN.fullmatch(name):
        raise ValueError(
            "must be the NAME of a variable of the tool's own, not one that says how programs run"
        )
    return name


ToolVariable = Annotated[VariableName, AfterValidator(_for_a_tool)]
Directory = Annotated[
    str, Field(max_length=4096), matches(re.compile(r"/[^\x00]*"), "must be an absolute directory")
]
Limit = Annotated[int, Field(ge=1, le=2**31 - 1)]
LimitOrOff = Annotated[int, Field(ge=0, le=2**31 - 1)]


def _provider_kind(kind: str) -> str:
    if kind not in KINDS:
        known = [repr(name) for name in KINDS]
        raise ValueError(f"Input should be {', '.join(known[:-1])} or {known[-1]}")
    return kind


def _server_url(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("must be http://HOST... or https://HOST...")
    if parts.username is not None or parts.password is not None:
        raise ValueError("must hold no user or password; name the key's variable in api_key_env")
    if parts.query or parts.fragment:
        raise ValueError("must have no ? or # part")
    return url


def _is_host_port(text: str, lowest_port: int) -> bool:
    match = _HOST_PORT.fullmatch(text)
    return match is not None and lowest_port <= int(match[2]) < 65_536


def _mesh_address(text: str) -> str:
    """``tcp://HOST:PORT``, which may be written without its beginning."""
    place = text.removeprefix("tcp://")
    if text and not _is_host_port(place, 1):
        raise ValueError("must be HOST:PORT or tcp://HOST:PORT")
    return f"tcp://{place}" if text else ""


def _mesh_listen(text: str) -> str:
    place = text.removeprefix("tcp://")
    if text and not _is_host_port(place, 0):
        raise ValueError("must be HOST:PORT or tcp://HOST:PORT; port 0 takes a free one")
    return f"tcp://{place}" if text else ""


def _ray_address(text: str) -> str:
    if text and not _is_host_port(text, 1):
        raise ValueError("must be HOST:PORT, the address of the cluster's head (not ray://, not auto)")
    return text


def _listen_address(text: str) -> str:
    if text and not _is_host_port(text, 0):
        raise ValueError("must be HOST:PORT; port 0 takes a free one")
    return text


class NodeSettings(Section):
    """``name`` is a petname; the node's true name is the fingerprint of its first key.

    ``ray_address``: attach to the Ray cluster there, whose token is in the file ``ray_token``, instead of starting
    one. Its cells dial back to ``cells_listen``, by default a free port of the address that the cluster sees.
    ``reconcile_s``: within which an orphan is found and ended. ``check_replay``: each turn is gone through once
    more when it has ended, to find behaviours that would not do the same again after a crash.
    """

    name: Annotated[str, matches(_PETNAME, "a petname is up to 64 letters, digits, . _ or -")] = ""
    engine: Literal["ray", "local"] = "ray"
    ray_address: Annotated[str, Field(max_length=300), AfterValidator(_ray_address)] = ""
    ray_token: Annotated[str, matches(re.compile(r"(/[^\x00]{0,4095})?"), "must be an absolute path")] = ""
    cells_listen: Annotated[str, Field(max_length=300), AfterValidator(_listen_address)] = ""
    reconcile_s: Annotated[float, Field(ge=0.1, le=3600, allow_inf_nan=False)] = 30.0
    check_replay: bool = False

    @model_validator(mode="after")
    def _can_attach(self) -> NodeSettings:
        if self.ray_address and self.engine != "ray":
            raise ValueError(f'ray_address needs engine "ray", it is "{self.engine}"')
        if self.ray_address and not self.ray_token:
            raise ValueError("ray_address needs ray_token: the file that holds that cluster's token")
        return self


class MeshSettings(Section):
    """``listen``: where peers may dial this node; empty: it only dials. ``join``: a node to dial at boot.

    ``deadline_s``: how long a message to another node is carried before it is a dead letter.
    """

    listen: Annotated[str, Field(max_length=300), AfterValidator(_mesh_listen)] = ""
    join: Annotated[str, Field(max_length=300), AfterValidator(_mesh_address)] = ""
    deadline_s: Annotated[float, Field(ge=1, le=86_400, allow_inf_nan=False)] = 60.0


class PeerSettings(Section):
    """A node of the allow list; what is left out comes from ``weftos peer``. ``may``: send, ps, spawn, kill.

    ``tools``: those that are used for it here; left out everywhere: those without effects; ``*``: every tool.
    """

    origin: Annotated[str, matches(_ORIGIN, "must be what weftos node id prints on that node")] | None = None
    address: Annotated[str, Field(max_length=300), AfterValidator(_mesh_address)] | None = None
    may: list[Literal["send", "ps", "spawn", "kill"]] | None = Field(default=None, max_length=4)
    tools: list[Annotated[str, matches(_TOOL, "must be a tool's name, or *")]] | None = Field(
        default=None, max_length=1000
    )


def _price(text: str) -> str:
    millionths(text)
    return text


PriceText = Annotated[str, AfterValidator(_price)]


class PriceSettings(Section):
    """What a million tokens of a model cost, as text, in whatever unit all prices of the node are in: of what it reads
    (``input``), of what it writes (``output``), and of what it reads and its provider had kept (``cached``, as
    ``input`` when left out).
    """

    input: PriceText
    output: PriceText
    cached: PriceText | None = None

    def price(self) -> Price:
        """In millionths."""
        cached = self.input if self.cached is None else self.cached
        return Price(millionths(self.input), millionths(self.output), millionths(cached))


class ProviderSettings(Section):
    """A source of model answers. ``prices``: by model, for processes that have a budget of money."""

    kind: Annotated[str, AfterValidator(_provider_kind)]
    base_url: Annotated[str, Field(max_length=2048), AfterValidator(_server_url)] | None = None
    api_key_env: VariableName = ""
    api_key_file: Annotated[str, matches(re.compile(r"(/[^\x00]{0,4095})?"), "must be an absolute path")] = ""
    model: Annotated[str, Field(max_length=256)] = ""
    stream: bool = True
    timeout_s: Annotated[float, Field(gt=0, le=3600, allow_inf_nan=False)] = 300.0
    parallel: Annotated[int, Field(ge=1, le=1024)] = 64
    breaker_failures: Annotated[int, Field(ge=0, le=1000)] = 10
    breaker_open_s: Annotated[float, Field(gt=0, le=3600, allow_inf_nan=False)] = 30.0
    prices: dict[Annotated[str, Field(max_length=256)], PriceSettings] = Field(
        default_factory=dict, max_length=256
    )

    def price(self, model: str) -> Price | None:
        """What a model costs; None: nobody has said it. What has no server costs nothing."""
        declared = self.prices.get(model)
        if declared is not None:
            return declared.price()
        return None if KINDS[self.kind].has_server else NOTHING

    @model_validator(mode="after")
    def _has_a_server(self) -> ProviderSettings:
        if KINDS[self.kind].has_server and self.base_url is None:
            raise ValueError(f'kind "{self.kind}" needs base_url')
        if self.api_key_env and self.api_key_file:
            raise ValueError("api_key_env and api_key_file are both given: name one place of the key")
        return self


class KnownModelSettings(Section):
    """One of ``[[models]]``: ``name`` is ``provider/model``. ``context_window``: how many tokens it takes, 0 when
    nobody has said it. ``input``, ``output``, ``cached``: what it costs, as in ``[providers.NAME.prices.MODEL]``, which
    goes before. ``tier``: that of ``[routing]`` that it is in, behind those that are listed there.
    """

    name: Annotated[str, Field(min_length=1, max_length=256)]
    context_window: Annotated[int, Field(ge=0, le=100_000_000)] = 0
    input: PriceText | None = None
    output: PriceText | None = None
    cached: PriceText | None = None
    tier: Literal["free", "standard", "premium", "elite"] | None = None

    @model_validator(mode="after")
    def _priced_whole(self) -> KnownModelSettings:
        if (self.input is None) != (self.output is None) or (self.cached is not None and self.input is None):
            raise ValueError(f"{self.name[:64]} has a price in part: say input and output")
        return self

    def price(self) -> Price | None:
        """What it costs; None: nobody has said it."""
        if self.input is None or self.output is None:
            return None
        return PriceSettings(input=self.input, output=self.output, cached=self.cached).price()


class ModelSettings(Section):
    """What a process gets that asks for no provider or model. Empty ``default_model``: the provider's own."""

    default_provider: Name = "offline"
    default_model: Annotated[str, Field(max_length=256)] = ""


class ToolSettings(Section):
    """A third-party tool. ``python_path`` is searched last, by its worker alone. ``env``: the names of variables of the
    node's environment that its worker is given, which it shares with the tools of the same module.
    """

    import_: Annotated[ImportString, Field(alias="import")]
    python_path: list[Directory] = Field(default_factory=list, max_length=32)
    env: list[ToolVariable] = Field(default_factory=list, max_length=32)


class BehaviourSettings(Section):
    """A third-party behaviour. ``shared`` lets its processes share a cell with others of the same package."""

    import_: Annotated[ImportString, Field(alias="import")]
    python_path: list[Directory] = Field(default_factory=list, max_length=32)
    isolation: Isolation = "dedicated"


class LimitSettings(Section):
    """The bounds of the kernel that an operator has reason to change; all others are fixed."""

    processes: Limit = _BOUNDS.processes
    mailbox_messages: Limit = _BOUNDS.mailbox_messages
    mailbox_bytes: Limit = _BOUNDS.mailbox_bytes
    message_bytes: Limit = _BOUNDS.message_bytes
    mail_bytes: Limit = _BOUNDS.mail_bytes
    peer_mail_bytes: Limit = _BOUNDS.peer_mail_bytes
    dead_letters: Limit = _BOUNDS.dead_letters
    dead_letters_alert: Limit = _BOUNDS.dead_letters_alert
    dead_letters_bytes: Limit = _BOUNDS.dead_letters_bytes
    sessions: Limit = _BOUNDS.sessions
    sessions_bytes: Limit = _BOUNDS.sessions_bytes
    tool_result_bytes: Limit = _BOUNDS.tool_result_bytes
    turn_timeout_s: Limit = int(_BOUNDS.turn_timeout_s)
    hang_s: Limit = int(_BOUNDS.hang_s)
    cell_memory_mib: LimitOrOff = _BOUNDS.cell_memory_mib
    operator_reserve: Limit = _BOUNDS.operator_reserve
    agent_children: Limit = _BOUNDS.agent_children
    agent_subtree: Limit = _BOUNDS.agent_subtree
    peer_processes: Limit = _BOUNDS.peer_processes
    agent_spawns_per_trace: Limit = _BOUNDS.agent_spawns_per_trace
    same_calls: LimitOrOff = _BOUNDS.same_calls
    failed_calls: LimitOrOff = _BOUNDS.failed_calls
    children: Limit = _BOUNDS.children
    agent_sessions: Limit = _BOUNDS.agent_sessions
    running_sessions: Limit = _BOUNDS.running_sessions
    session_idle_s: Limit = int(_BOUNDS.session_idle_s)
    processes_per_cell: Limit = _BOUNDS.processes_per_cell
    warm_cells: Limit = _BOUNDS.warm_cells

    @model_validator(mode="after")
    def _fits(self) -> LimitSettings:
        if faults := check_bounds(self.bounds()):
            raise ValueError("; ".join(faults))
        return self

    def bounds(self) -> Bounds:
        """The kernel's bounds with these values in place of its own."""
        return replace(_BOUNDS, **self.model_dump())


class MemorySettings(Section):
    """``embedder``: ``lexical`` (pieces of words and no model: it knows nothing of meaning), or the provider that makes
    vectors, with its ``model``; ``dimensions`` is what they must have, 0 for whatever comes first.
    ``budget_tokens``: what an agent recalls before it asks its model, 0 for nothing.
    """

    embedder: Name = LEXICAL
    model: Annotated[str, Field(max_length=256)] = ""
    dimensions: Annotated[int, Field(ge=0, le=16_384)] = 0
    budget_tokens: Annotated[int, Field(ge=0, le=1_000_000)] = 1_500


TABLES: Mapping[str, type] = {"agent": NodesAgentConfig, "routing": RoutingConfig, "guard": GuardConfig}
"""Sections whose schema is cognition's own: what agents are told of it, cells check by the same."""


class LedgerSettings(Section):
    """``publish_s``: the published ledger (``ledger/``) is brought up to date at most so often. A segment of the
    journal is closed when it is over ``segment_bytes``; when closed ones come to ``compact_bytes``, a snapshot takes
    their place.
    """

    publish_s: Annotated[float, Field(ge=0.05, le=3600, allow_inf_nan=False)] = 1.0
    segment_bytes: Annotated[int, Field(ge=4096, le=2**30)] = 64 * 2**20
    compact_bytes: Annotated[int, Field(ge=4096, le=2**40)] = 64 * 2**20


class LogSettings(Section):
    """The node's log files: each at most ``max_bytes``, the newest and ``backups`` older ones are kept."""

    max_bytes: Annotated[int, Field(ge=64 * 1024, le=2**31 - 1)] = 10 * 2**20
    backups: Annotated[int, Field(ge=1, le=100)] = 5
    level: Literal["debug", "info", "warning", "error"] = "info"


class Settings(Section):
    """All sections. The provider ``offline`` always exists: no key, no network, and no language model."""

    node: NodeSettings = NodeSettings()
    mesh: MeshSettings = MeshSettings()
    peers: dict[Name, PeerSettings] = Field(default_factory=dict, max_length=256)
    providers: dict[Name, ProviderSettings] = Field(default_factory=dict, max_length=64)
    model: ModelSettings = ModelSettings()
    agent: dict[str, Any] = Field(default_factory=dict)
    routing: dict[str, Any] = Field(default_factory=dict)
    guard: dict[str, Any] = Field(default_factory=dict)
    identities: dict[Name, IdentitySettings] = Field(default_factory=dict, max_length=10_000)
    permissions: PermissionSettings = PermissionSettings()
    rate_limits: RateLimitSettings = RateLimitSettings()
    models: list[KnownModelSettings] = Field(default_factory=list, max_length=1000)
    tools: dict[Name, ToolSettings] = Field(default_factory=dict, max_length=1000)
    behaviours: dict[Name, BehaviourSettings] = Field(default_factory=dict, max_length=1000)
    limits: LimitSettings = LimitSettings()
    memory: MemorySettings = MemorySettings()
    ledger: LedgerSettings = LedgerSettings()
    logs: LogSettings = LogSettings()

    @model_validator(mode="before")
    @classmethod
    def _with_offline(cls, value: Any) -> Any:
        if not isinstance(value, dict) or not isinstance(value.get("providers", {}), dict):
            return value
        return {**value, "providers": {"offline": {"kind": "offline"}, **value.get("providers", {})}}

    @field_validator("behaviours")
    @classmethod
    def _agent_is_ours(cls, behaviours: dict[str, BehaviourSettings]) -> dict[str, BehaviourSettings]:
        if "agent" in behaviours:
            raise ValueError(
                "agent is the behaviour that comes with weftos, which every spawn runs that names none: "
                "choose another name"
            )
        return behaviours

    @field_validator("tools")
    @classmethod
    def _no_tool_has_a_models_key(
        cls, tools: dict[str, ToolSettings], others: ValidationInfo
    ) -> dict[str, ToolSettings]:
        holders = {each.api_key_env: name for name, each in others.data.get("providers", {}).items()}
        for name, tool in tools.items():
            if taken := [variable for variable in tool.env if variable in holders]:
                raise ValueError(
                    f"{name}.env names {taken[0]}, which holds the key of provider {holders[taken[0]]}: a tool is "
                    "given none of these"
                )
        return tools

    @field_validator("model")
    @classmethod
    def _default_provider_exists(cls, model: ModelSettings, others: ValidationInfo) -> ModelSettings:
        providers = others.data.get("providers")
        if providers is not None and model.default_provider not in providers:
            known = ", ".join(sorted(providers))
            raise ValueError(f"default_provider is {model.default_provider}, but the providers are {known}")
        return model

    @field_validator("memory")
    @classmethod
    def _embedder_exists(cls, memory: MemorySettings, others: ValidationInfo) -> MemorySettings:
        providers = others.data.get("providers")
        if memory.embedder == LEXICAL or providers is None:
            return memory
        provider = providers.get(memory.embedder)
        able = sorted(name for name, entry in providers.items() if KINDS[entry.kind].makes_vectors)
        if provider is None or not KINDS[provider.kind].makes_vectors:
            known = ", ".join([LEXICAL, *able])
            raise ValueError(f"embedder is {memory.embedder}, but what makes vectors is: {known}")
        if not (memory.model or provider.model):
            raise ValueError(f"model is empty: name the embedding model of {memory.embedder}")
        return memory

    def gateway(self) -> dict[str, Any]:
        """What the gateway is told: names of variables, never a key."""
        return {
            "default": self.model.default_provider,
            "default_model": self.model.default_model,
            "providers": {
                name: provider.model_dump(exclude={"prices"}) for name, provider in self.providers.items()
            },
        }

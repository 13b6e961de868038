"""Commands about processes: spawn, ps, tree, inspect, stop, start, suspend, kill."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from kernel.operations.processes import ChildRow, ProcessRow, Signal
from kernel.operations.spawning import (
    TEMPLATE,
    AutoShutdown,
    Isolation,
    OnLogical,
    Restart,
    ShutdownS,
    SpawnedAll,
    SpawnRequest,
)
from weftos.cli.agents.budgets import read_amounts
from weftos.cli.agents.mailboxes import read_sizes
from weftos.cli.agents.rights import read_words
from weftos.cli.agents.settings import check_agent, read_config
from weftos.cli.node.mesh import show_cluster
from weftos.cli.terminal.branches import Branch
from weftos.cli.terminal.options import AsJson, Command, Data, Looked, Target, Why, client
from weftos.cli.terminal.output import Output, duration, moment, shown
from weftos.cli.terminal.styles import Text, joined, styled
from weftos.json_object import Fields, Json
from weftos.paths import absolute

if TYPE_CHECKING:
    from weftos.client.client import Client

PAGE_ROWS = 2_000


def _intensity(text: str | None) -> tuple[int, float] | None:
    if text is None:
        return None
    restarts, _, period = text.partition("/")
    try:
        return int(restarts), _finite(period)
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is not RESTARTS/SECONDS, such as 5/60", param_hint="'--intensity'"
        ) from None


def _finite(text: str) -> float:
    """JSON has no other numbers. Raises ValueError."""
    number = float(text)
    if not isfinite(number):
        raise ValueError(text)
    return number


def _seconds(text: str | None, option: str) -> ShutdownS | None:
    if text is None or text == "infinity":
        return cast(ShutdownS | None, text)
    try:
        return _finite(text)
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is neither seconds nor infinity", param_hint=f"'{option}'"
        ) from None


def _refuse_behaviour(wanted: Json, tools: str | None) -> None:
    """A supervisor takes none of the options that describe a behaviour."""
    for name, value in {**wanted, "tools": tools}.items():
        if value and (name, value) != ("behaviour", "agent"):
            raise typer.BadParameter(f"a supervisor runs no behaviour: leave out --{name.replace('_', '-')}")


MailboxWords = Annotated[
    list[str] | None,
    typer.Option(
        "--mailbox",
        metavar="NAME=VALUE",
        help="How much may wait for it: messages=N, bytes=N [as the node allows]; and overflow=back_pressure or "
        "dead_letter, what becomes of a message without room [refused]; once for each.",
    ),
]
TurnTimeout = Annotated[
    float | None,
    typer.Option(
        "--turn-timeout",
        metavar="SECONDS",
        min=1,
        help="How long a turn of it may take [as the node allows].",
    ),
]


def spawn(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Its name: unique, not all digits.")],
    behaviour: Annotated[
        str, typer.Option(help="What it runs: agent, or a name from the configuration.")
    ] = "agent",
    under: Annotated[str, typer.Option(metavar="ADDRESS", help="The supervisor it belongs to.")] = "/user",
    on: Annotated[
        str, typer.Option(metavar="NODE", help="A peer that is to start it, and grants spawn.")
    ] = "",
    tools: Annotated[
        str | None,
        typer.Option(
            metavar="A,B", help="Tools it may use, an empty text for none [calculator,file_read,file_list]."
        ),
    ] = None,
    restart: Annotated[Restart, typer.Option(help="When its supervisor starts it again.")] = "permanent",
    isolation: Annotated[
        Isolation | None, typer.Option(help="A cell with others of its kind, or one of its own.")
    ] = None,
    provider: Annotated[str, typer.Option(metavar="P", help="Model provider, from the configuration.")] = "",
    model: Annotated[str, typer.Option(metavar="M", help="Model name, as the provider calls it.")] = "",
    system_prompt: Annotated[str, typer.Option(metavar="S", help="Standing instructions.")] = "",
    config: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="What else its behaviour is told: for an agent a key of [agent], such as history.strategy=sliding; "
            "the value as in the configuration, or text; once for each.",
        ),
    ] = None,
    workspace: Annotated[str, typer.Option(metavar="DIR", help="Directory that its file tools see.")] = "",
    supervisor: Annotated[bool, typer.Option("--supervisor", help="Make a supervisor instead.")] = False,
    intensity: Annotated[
        str | None, typer.Option(metavar="N/SECONDS", help="Restarts a supervisor allows in a time [5/60].")
    ] = None,
    strategy: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Whom a supervisor restarts with a child: one_for_one, one_for_all, rest_for_one, or "
            "simple_one_for_one, for children of one template, which the other options describe [one_for_one].",
        ),
    ] = "",
    shutdown_s: Annotated[
        str | None,
        typer.Option(
            "--shutdown",
            metavar="SECONDS",
            help="Time it has to end when it is stopped; 0 kills at once, or infinity [5, a supervisor infinity].",
        ),
    ] = None,
    significant: Annotated[
        bool, typer.Option("--significant", help="Its own end may end its supervisor.")
    ] = False,
    on_logical: Annotated[
        OnLogical,
        typer.Option(
            help="What is done when it ends for a logical reason: no_progress, refused; with park and end also "
            "budget, diverged."
        ),
    ] = "restart",
    auto_shutdown: Annotated[
        AutoShutdown, typer.Option(help="When a supervisor ends with its significant children.")
    ] = "never",
    child_restart: Annotated[
        Restart | None, typer.Option(help="When children of a template are started again [permanent].")
    ] = None,
    child_shutdown_s: Annotated[
        str | None,
        typer.Option("--child-shutdown", metavar="SECONDS", help="Time that each of them has to end [5]."),
    ] = None,
    capabilities: Annotated[
        list[str] | None,
        typer.Option(
            "--capability",
            metavar="NAME=VALUE",
            help="What else it may do: deny=TOOL,..., messages=all, subtree, children, parent, listed or none, "
            "listed=ADDRESS,..., spawn=yes or no, topics=A,..., memory=own,shared, paths=A,..., "
            "network=HOST,... that its tools may declare to use, behaviours=B,... and dedicated=yes or no for the "
            "children it makes; once for each. "
            "Names may hold * and ?. What is left out it has as the agent above it [all].",
        ),
    ] = None,
    budget: Annotated[
        list[str] | None,
        typer.Option(
            "--budget",
            metavar="NAME=AMOUNT",
            help="What it and all below it may use up: tool_calls, messages, tokens, money, time_ms, cpu_ms, "
            "memory_bytes; and then=wrap_up, refuse, pause or stop, when one is used up [wrap_up]; once for each.",
        ),
    ] = None,
    turn_timeout_s: TurnTimeout = None,
    mailbox: MailboxWords = None,
    count: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="So many, NAME-1 to NAME-N: all of them, or none.")
    ] = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Start a process, or a supervisor, below a supervisor."""
    out = Output(as_json)
    allowed = _intensity(intensity)
    wanted: Json = {
        "behaviour": behaviour,
        "isolation": isolation,
        "provider": provider,
        "model": model,
        "system_prompt": system_prompt,
        "config": read_config(config),
        "workspace": workspace and str(absolute(workspace)),
    }
    if behaviour == "agent":
        check_agent(wanted["config"])
    if supervisor and strategy != TEMPLATE:
        _refuse_behaviour(
            {**wanted, "capability": capabilities, "turn_timeout": turn_timeout_s, "mailbox": mailbox}, tools
        )
    for option, given in (
        ("intensity", intensity),
        ("strategy", strategy),
        ("auto-shutdown", auto_shutdown != "never"),
    ):
        if given and not supervisor:
            raise typer.BadParameter(f"--{option} belongs to a supervisor: add --supervisor, or leave it out")
    names = None if tools is None else [tool.strip() for tool in tools.split(",") if tool.strip()]
    wanted |= {"under": under, "on": on, "tools": names, "restart": restart}
    wanted |= {"supervisor": supervisor, "intensity": allowed, "strategy": strategy}
    wanted |= {
        "shutdown_s": _seconds(shutdown_s, "--shutdown"),
        "significant": significant,
        "on_logical": on_logical,
        "auto_shutdown": auto_shutdown,
        "child_restart": child_restart,
        "child_shutdown_s": _seconds(child_shutdown_s, "--child-shutdown"),
        "capabilities": read_words(capabilities),
        "budget": read_amounts(budget),
        "turn_timeout_s": turn_timeout_s,
        "mailbox": read_sizes(mailbox),
    }
    with client(data) as node, out.waiting(f"starting {name}"):
        if count is not None:
            _say_all(out, node.spawn_all([SpawnRequest(name, **wanted)], count=count))
            return
        made = node.spawn(name, **wanted)
    out.document(made)
    out.say(f"{made['name']} is PID {made['pid']} at {made['address']}")


def _say_all(out: Output, made: SpawnedAll) -> None:
    """What became of many. Exit status 1 when one of them does not run."""
    out.document(made)
    if running := made["spawned"]:
        first, last = running[0], running[-1]
        out.say(
            f"{len(running)} run, {first['name']} (PID {first['pid']}) to {last['name']} (PID {last['pid']})"
        )
    for failed in made["failed"]:
        out.say(failed["why"])
    if made["failed"]:
        raise typer.Exit(1)


def ps(
    all: Annotated[bool, typer.Option("--all", help="The node's own helpers under /kernel too.")] = False,
    cluster: Annotated[
        bool, typer.Option("--cluster", help="Those of the other nodes too, as each has last said.")
    ] = False,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """List processes."""
    out = Output(as_json)
    if cluster:
        if all:
            raise typer.BadParameter("--all is about this node's own helpers: give it without --cluster")
        show_cluster(out, data)
        return
    with client(data) as node, out.waiting("asking the node"):
        rows = _processes(node, all)
    out.document(rows)
    columns = (
        "PID",
        "ADDRESS",
        "TYPE",
        "BEHAVIOUR",
        "STATE",
        "WAITS FOR",
        "RESTARTS",
        "MAILBOX",
        "UPTIME",
        "CELL",
        "OS PID",
    )
    out.table(columns, (_ps_row(row) for row in rows), keys=2)


def _processes(node: Client, all: bool) -> list[ProcessRow]:
    """All of them, asked for a page at a time."""
    rows = page = node.ps(all=all, limit=PAGE_ROWS)
    while len(page) >= PAGE_ROWS:
        page = node.ps(all=all, after=page[-1]["address"], limit=PAGE_ROWS)
        rows += page
    return rows


def _ps_row(row: Fields) -> list[object]:
    held = [row.get(name) for name in ("pid", "address", "type", "behaviour")]
    numbers = [row.get(name) for name in ("restarts", "mailbox")]
    return [
        *held,
        _state(row),
        _waits(row.get("waiting")),
        *numbers,
        duration(row.get("uptime_s")),
        _cell(row),
        row.get("os_pid") or None,
    ]


def _cell(row: Fields) -> str:
    """Its name, and whether nobody else may be in it."""
    cell = str(row.get("cell") or "")
    return f"{cell}, its own" if cell and row.get("isolation") == "dedicated" else cell


def _waits(wait: Fields | None) -> str:
    """For whom, how long already, and how long it may yet be."""
    if not wait:
        return ""
    what = f"{wait['kind'].replace('_', ' ')} {wait['of']}".rstrip()
    since = "" if wait["waited_s"] is None else f" {duration(wait['waited_s'])}"
    return f"{what}{since}" + ("" if wait["left_s"] is None else f", {duration(wait['left_s'])} left")


def _state(row: Fields) -> str:
    """The slot's state says more than the process's, unless the slot simply runs."""
    slot = row.get("slot")
    return str(slot if slot and slot != "running" else row.get("state") or slot or "")


def tree(
    all: Annotated[bool, typer.Option("--all", help="The node's own helpers under /kernel too.")] = False,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Draw supervisors and their children."""
    out = Output(as_json)
    with client(data) as node, out.waiting("asking the node"):
        rows = _processes(node, all)
    nested = nest(rows)
    out.document(nested)
    for root in nested:
        if not as_json:
            out.tree(_drawn(root))


def nest(rows: Sequence[Fields]) -> list[Json]:
    """The rows of ``ps`` as a forest: each with its ``children`` as rows, found by address."""
    nodes: dict[str, Json] = {row["address"]: {**row, "children": []} for row in rows}
    roots: list[Json] = []
    for address, row in nodes.items():
        above = address.rpartition("/")[0] or "/"
        parent = nodes.get(above) if above != address else None
        (roots if parent is None else parent["children"]).append(row)
    return roots


def _drawn(row: Json) -> Branch:
    drawn = Branch(_label(row))
    pending = [(drawn, row)]
    while pending:
        branch, at = pending.pop()
        pending += [(branch.add(_label(child)), child) for child in at["children"]]
    return drawn


def _label(row: Json) -> Text:
    restarts = row.get("restarts") or 0
    times = f"  {restarts} restart{'s' if restarts > 1 else ''}" if restarts else ""
    kind = f"  {row['type']}" if row.get("type") in ("supervisor", "helper") else ""
    return joined(
        styled(str(row.get("name") or row["address"]), "bold"),
        styled(f"  PID {row['pid']}  " if row.get("pid") is not None else "  no PID  "),
        styled(_state(row)),
        styled(times, "yellow"),
        styled(kind, "dim"),
    )


def inspect(target: Looked, data: Data = None, as_json: AsJson = False) -> None:
    """Show everything about one process."""
    out = Output(as_json)
    with client(data) as node:
        found = node.inspect(target)
    out.document(found)
    out.table(("FIELD", "VALUE"), _fields(found))


def children(target: Target, data: Data = None, as_json: AsJson = False) -> None:
    """Show the children of a process as its supervisor has them, and its flags."""
    out = Output(as_json)
    with client(data) as node:
        found = node.children(target, limit=PAGE_ROWS)
        page = found["children"]
        while len(page) >= PAGE_ROWS:
            page = node.children(target, after=page[-1]["spawned_seq"], limit=PAGE_ROWS)["children"]
            found["children"] += page
    out.document(found)
    out.say(
        f"{found['address']}: {found['strategy']}, {found['restarts']} restarts in {found['period_s']:g} s "
        f"({found['counted']} counted), then {found['on_exceed']}; auto_shutdown {found['auto_shutdown']}; "
        f"{found['counts']['active']} active"
    )
    columns = ("NAME", "PID", "SLOT", "PHASE", "TYPE", "RESTART", "ON LOGICAL", "SIGNIFICANT", "SHUTDOWN")
    out.table(columns, (_child(row) for row in found["children"]), keys=1)


def _child(row: ChildRow) -> list[object]:
    significant = "yes" if row["significant"] else ""
    told = (row["pid"] or None, row["slot"], row["phase"], row["type"], row["restart"], row["on_logical"])
    return [row["name"], *told, significant, row["shutdown_s"]]


def _fields(value: Fields, above: str = "") -> list[tuple[str, Any]]:
    fields: list[tuple[str, Any]] = []
    for name, inner in value.items():
        dotted = f"{above}{name}"
        if isinstance(inner, dict) and inner:
            fields += _fields(inner, f"{dotted}.")
        elif isinstance(inner, list) and inner and all(isinstance(item, dict) for item in inner):
            for number, item in enumerate(inner):
                fields += _fields(item, f"{dotted}.{number}.")
        else:
            fields.append(
                (dotted, moment(inner) if name.endswith("_us") and isinstance(inner, int) else shown(inner))
            )
    return fields


def stop(target: Target, why: Why = "", data: Data = None, as_json: AsJson = False) -> None:
    """Stop a child and all that is below it through its supervisor, to stay stopped.

    weftos start starts it again, unless it is temporary or made of a template: then its slot goes with it.
    """
    out = Output(as_json)
    with client(data) as node, out.waiting(f"stopping {target}"):
        answer = node.stop(target, why=why)
    out.document(answer)
    address = answer.get("address", target)
    after = f"weftos start {address} starts it again" if answer.get("kept", True) else "its slot goes with it"
    out.say(f"{address} is stopped; {after}")


def rm(
    target: Target,
    recursive: Annotated[bool, typer.Option("--recursive", "-r", help="With all that is below it.")] = False,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Remove a stopped or parked child for good.

    Its name is free again; its conversations are gone, its documents and its workspace stay.
    """
    out = Output(as_json)
    with client(data) as node, out.waiting(f"removing {target}"):
        answer = node.remove(target, recursive=recursive)
    out.document(answer)
    out.say(f"{answer['address']} is removed ({answer['removed']} in all)")


def start(
    address: Annotated[str, typer.Argument(metavar="ADDRESS", help="A stopped or parked child.")],
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Start a stopped or parked child again."""
    out = Output(as_json)
    with client(data) as node, out.waiting(f"starting {address}"):
        answer = node.start(address)
    out.document(answer)
    pid = f", PID {answer['pid']}" if answer.get("pid") is not None else ""
    out.say(f"{answer.get('address', address)} starts{pid}")


def unpark(target: Target, data: Data = None, as_json: AsJson = False) -> None:
    """Start a parked child again."""
    out = Output(as_json)
    with client(data) as node, out.waiting(f"starting {target}"):
        answer = node.unpark(target)
    out.document(answer)
    out.say(f"{answer['address']} starts, PID {answer['pid']}")


def restart(target: Target, why: Why = "", data: Data = None, as_json: AsJson = False) -> None:
    """End a process in order and start it again.

    Its messages stay, a turn that was open is handed out again, and no supervisor counts it.
    """
    out = Output(as_json)
    with client(data) as node, out.waiting(f"restarting {target}"):
        answer = node.restart(target, why=why)
    out.document(answer)
    out.say(f"{answer['address']} runs again, PID {answer['pid']}")


def suspend(target: Target, why: Why = "", data: Data = None, as_json: AsJson = False) -> None:
    """Have a process begin no turn until it is resumed.

    The turn that it is in goes on; its messages wait. That holds after a restart and a boot too.
    """
    out = Output(as_json)
    with client(data) as node:
        answer = node.suspend(target, why=why)
    out.document(answer)
    out.say(f"{answer['address']} is suspended; weftos resume {answer['address']} has it go on")


def resume(target: Target, why: Why = "", data: Data = None, as_json: AsJson = False) -> None:
    """Have a suspended process go on."""
    out = Output(as_json)
    with client(data) as node:
        answer = node.resume(target, why=why)
    out.document(answer)
    out.say(f"{answer['address']} goes on")


def kill(
    target: Target,
    signal: Annotated[
        Signal, typer.Option(help="term lets it end its turn in order, kill does not.")
    ] = "term",
    why: Why = "",
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Send a process, and all that is below it, an exit signal.

    Its supervisor then does what the restart type says.
    """
    out = Output(as_json)
    with client(data) as node, out.waiting(f"signalling {target}"):
        answer = node.kill(target, signal=signal, why=why)
    out.document(answer)
    out.say(f"{signal} sent to {answer.get('address', target)}")


def change(
    target: Target,
    restart: Annotated[Restart | None, typer.Option(help="When its supervisor starts it again.")] = None,
    shutdown_s: Annotated[
        str | None,
        typer.Option("--shutdown", metavar="SECONDS", help="Time it has to end: seconds, 0 or infinity."),
    ] = None,
    significant: Annotated[
        bool | None,
        typer.Option("--significant/--not-significant", help="Whether its own end may end its supervisor."),
    ] = None,
    on_logical: Annotated[
        OnLogical | None, typer.Option(help="What is done when it ends for a logical reason.")
    ] = None,
    intensity: Annotated[
        str | None, typer.Option(metavar="N/SECONDS", help="Restarts a supervisor allows in a time.")
    ] = None,
    strategy: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="one_for_one, one_for_all or rest_for_one, of a supervisor."),
    ] = None,
    auto_shutdown: Annotated[
        AutoShutdown | None, typer.Option(help="When a supervisor ends with its significant children.")
    ] = None,
    turn_timeout_s: TurnTimeout = None,
    mailbox: MailboxWords = None,
    child_restart: Annotated[
        Restart | None,
        typer.Option(help="When children of its template are started again, made from now on."),
    ] = None,
    child_shutdown_s: Annotated[
        str | None,
        typer.Option("--child-shutdown", metavar="SECONDS", help="Time that each of these has to end."),
    ] = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Change what a child is kept as, or a supervisor's flags, while it runs.

    All that is said, or nothing. No process is touched: it counts when the next one ends or is stopped; what is said
    of a template, for the children that are made from then on.
    """
    out = Output(as_json)
    wanted: Json = {
        "restart": restart,
        "shutdown_s": _seconds(shutdown_s, "--shutdown"),
        "significant": significant,
        "on_logical": on_logical,
        "intensity": _intensity(intensity),
        "strategy": strategy,
        "auto_shutdown": auto_shutdown,
        "turn_timeout_s": turn_timeout_s,
        "mailbox": read_sizes(mailbox),
        "child_restart": child_restart,
        "child_shutdown_s": _seconds(child_shutdown_s, "--child-shutdown"),
    }
    with client(data) as node:
        answer = node.change(target, **wanted)
    out.document(answer)
    changed = ", ".join(answer["changed"])
    out.say(f"{answer['address']}: {changed} changed" if changed else f"{answer['address']} is so already")


LOOK: tuple[Command, ...] = (spawn, ps, tree, inspect, children)
RULE: tuple[Command, ...] = (stop, start, unpark, restart, suspend, resume, kill, change, rm)

"""weftos trace: what an agent's turn went through. It reads the files; no node need run."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from weftos.cli.terminal.branches import Branch
from weftos.cli.terminal.options import AsJson, Data
from weftos.cli.terminal.output import Output, draws, duration, moment
from weftos.cli.terminal.styles import joined, styled
from weftos.paths import data_directory

if TYPE_CHECKING:
    from kernel.slices.feed.agent_trace import AgentTrace, ModelCallTrace
    from weftos.audit.trace import Rating

_BAR_CELLS = 20


def trace(
    turn: Annotated[str, typer.Option(metavar="ID", help="This turn, as chain log shows it: t12.")] = "",
    process: Annotated[
        str, typer.Option("--pid", metavar="PROCESS", help="The newest turn of it: its PID, name or address.")
    ] = "",
    session: Annotated[str | None, typer.Option(metavar="S", help="The newest turn of this session.")] = None,
    last: Annotated[
        bool, typer.Option("--last", help="The newest of all turns, as without any of these.")
    ] = False,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Show the stages of an agent's turn: how long each took, what came of it, what was asked and called."""
    from weftos.audit.auditor import Auditor
    from weftos.audit.trace import Wanted, agent_trace

    if last and (turn or process or session is not None):
        raise typer.BadParameter(
            "is the newest of all turns: leave it out, or the others", param_hint="'--last'"
        )
    out = Output(as_json)
    with out.progress("reading the ledger") as progress:
        found = agent_trace(Auditor(data_directory(data), progress), Wanted(turn, process, session))
    rating = None if found.rating is None else asdict(found.rating)
    document = {**found.trace.as_json(), "rating": rating, "erased": list(found.erased)}
    out.document(document)
    if not as_json:
        tree = _tree(found.trace)
        if found.rating is not None:
            tree.add(styled(_rated(found.rating)))
        out.tree(tree)


def _tree(trace: AgentTrace) -> Branch:
    begun, ended = trace.started_at_us, trace.completed_at_us
    took = "open" if ended is None else _took(ended - begun)
    again = f", handed out {trace.attempts} times" if trace.attempts > 1 else ""
    told = (
        f" of {trace.session_key}, {moment(begun)}: {trace.outcome}, {took}{again}"
        if begun >= 0
        else ": erased"
    )
    tree = Branch(joined(styled(f"turn {trace.turn}", "bold"), styled(told)))
    if trace.parent:
        tree.add(styled(f"asked for by call {trace.parent}, in trace {trace.trace_id}"))
    stages = tree.add(styled("stages", "bold"))
    longest = max((stage.took_us for stage in trace.stages), default=0) or 1
    block = "█" if draws() else "#"
    for stage in trace.stages:
        bar = block * max(1, stage.took_us * _BAR_CELLS // longest)
        why = f": {stage.metadata['why']}" if "why" in stage.metadata else ""
        stages.add(styled(f"{stage.stage:18} {_took(stage.took_us):>9}  {stage.outcome}{why}  {bar}"))
    if not trace.stages:
        stages.add(styled("its behaviour has told of none"))
    asked = tree.add(styled(f"questions to models: {len(trace.model_calls)}", "bold"))
    for call in trace.model_calls:
        asked.add(styled(_question(call)))
    called = tree.add(styled(f"calls of tools: {len(trace.tool_calls)}", "bold"))
    for tool in trace.tool_calls:
        called.add(styled(f"{tool.tool}  {_took(tool.took_us)}  {tool.status}{_again(tool.attempts)}"))
    for wait in trace.waits:
        tree.add(styled(f"a person was waited for {_took(wait.took_us)}, call {wait.step}: {wait.what}"))
    answered_by = f"{trace.provider_used or 'nobody'} {trace.model_used}".rstrip()
    tree.add(
        styled(
            f"in all {took}, {trace.total_tokens} tokens, {trace.fallback_attempts} questions not answered; "
            f"answered by {answered_by}"
        )
    )
    return tree


def _rated(rating: Rating) -> str:
    why = f": {rating.why}" if rating.why else ""
    counts = "" if rating.overall is None else f"; its score is {rating.overall:.2f} with that"
    return f"rated {rating.thumb} by {rating.by}{why}{counts}"


def _question(call: ModelCallTrace) -> str:
    from kernel.operations.rights.money import in_units

    fault = f" ({call.error_kind})" if call.error_kind else ""
    cost = "" if call.cost_millionths is None else f", cost {in_units(call.cost_millionths)}"
    kept = f" ({call.cached_tokens} kept)" if call.cached_tokens else ""
    tokens = f"{call.tokens[0]} tokens read{kept}, {call.tokens[1]} written"
    where = f"{call.provider} {call.model}".strip()
    return f"{where}  {_took(call.took_us)}  {call.status}{fault}, {tokens}{cost}{_again(call.attempts)}"


def _again(attempts: tuple[int, ...]) -> str:
    return f", attempt {len(attempts) + 1}" if attempts else ""


def _took(duration_us: int) -> str:
    return f"{duration_us / 1000:.1f} ms" if duration_us < 1_000_000 else duration(duration_us / 1e6)


COMMANDS = (trace,)

"""weftos trace: what an agent's turn went through. It reads the files; no node need run."""

from __future__ import annotations

from typing import Annotated

import typer

from weftos.cli.terminal.branches import Branch
from weftos.cli.terminal.options import AsJson, Data
from weftos.cli.terminal.output import Output, draws, duration, moment
from weftos.cli.terminal.styles import joined, styled
from weftos.json_object import Json
from weftos.paths import data_directory

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
    out.document(found)
    if not as_json:
        out.tree(_tree(found))


def _tree(found: Json) -> Branch:
    begun, ended = found["started_at_us"], found["completed_at_us"]
    took = "open" if ended is None else _took(ended - begun)
    tree = Branch(
        joined(
            styled(f"turn {found['turn']}", "bold"),
            styled(f" of {found['session_key']}, {moment(begun)}: {found['outcome']}, {took}"),
        )
    )
    stages = tree.add(styled("stages", "bold"))
    longest = max((row["took_us"] for row in found["stages"]), default=0) or 1
    block = "█" if draws() else "#"
    for row in found["stages"]:
        bar = block * max(1, row["took_us"] * _BAR_CELLS // longest)
        why = f": {row['why']}" if row["why"] else ""
        stages.add(styled(f"{row['stage']:18} {_took(row['took_us']):>9}  {row['outcome']}{why}  {bar}"))
    if not found["stages"]:
        stages.add(styled("its behaviour has told of none"))
    asked = tree.add(styled(f"questions to models: {len(found['model_calls'])}", "bold"))
    for call in found["model_calls"]:
        read, written = call["tokens"]
        fault = f" ({call['error_kind']})" if call["error_kind"] else ""
        cost = "" if call["cost_millionths"] is None else f", cost {call['cost_millionths'] / 1e6:g}"
        where = f"{call['provider']} {call['model']}".strip()
        tokens = f"{read} tokens read, {written} written"
        asked.add(styled(f"{where}  {_took(call['took_us'])}  {call['status']}{fault}, {tokens}{cost}"))
    called = tree.add(styled(f"calls of tools: {len(found['tool_calls'])}", "bold"))
    for call in found["tool_calls"]:
        called.add(styled(f"{call['tool']}  {_took(call['took_us'])}  {call['status']}"))
    tree.add(
        styled(
            f"in all {took}, {found['total_tokens']} tokens, {found['fallback_attempts']} questions not answered; "
            f"answered by {found['provider_used'] or 'nobody'} {found['model_used'] or ''}".rstrip()
        )
    )
    return tree


def _took(duration_us: int) -> str:
    return f"{duration_us / 1000:.1f} ms" if duration_us < 1_000_000 else duration(duration_us / 1e6)


COMMANDS = (trace,)

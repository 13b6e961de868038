"""Commands for who was not there: chain timeline, chain turn, chain stats. They read the files; no node need run."""

from __future__ import annotations

from typing import Annotated

import typer

from weftos.cli.chain.audit_options import Since, Until, selected
from weftos.cli.chain.ledger import chain
from weftos.cli.terminal.branches import Branch
from weftos.cli.terminal.options import AsJson, Data
from weftos.cli.terminal.output import Output, draws, duration, moment
from weftos.cli.terminal.styles import joined, styled
from weftos.json_object import Json
from weftos.paths import data_directory

_SAID_CHARACTERS = 400
_BAR_CELLS = 40


@chain.command("timeline")
def timeline(
    process: Annotated[
        str, typer.Argument(metavar="PID", help="A PID, or a name or an address for all incarnations.")
    ],
    limit: Annotated[int, typer.Option(metavar="N", min=1, max=10_000, help="How many, the newest.")] = 200,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Show what a process did, in order, and how long each thing took."""
    from weftos.audit.auditor import Auditor
    from weftos.audit.timeline import bars
    from weftos.audit.timeline import timeline as spans_of

    out = Output(as_json)
    with out.progress("reading the ledger") as progress:
        spans = spans_of(Auditor(data_directory(data), progress), process)[-limit:]
    out.document(spans)
    blocks = ("█", "·") if draws() else ("#", ".")
    out.table(
        ("ENTRY", "BEGAN", "TOOK", "WHAT", "CAME OF IT", "WHEN"),
        (
            (
                span["seq"],
                moment(span["time_us"]),
                "" if span["duration_us"] == 0 else _took(span["duration_us"]),
                f"{'  ' * span['depth']}{span['kind']}  {span['text']}",
                span["status"],
                bar,
            )
            for span, bar in zip(spans, bars(spans, full=blocks[0], empty=blocks[1]), strict=True)
        ),
    )


@chain.command("turn")
def turn(
    ident: Annotated[str, typer.Argument(metavar="ID", help="The turn's id, as chain log shows it: t12.")],
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Show one turn: what was asked, what was decided and why, what was done, what was answered."""
    from weftos.audit.auditor import Auditor
    from weftos.audit.turn import turn_story

    out = Output(as_json)
    with out.progress("reading the ledger") as progress:
        story = turn_story(Auditor(data_directory(data), progress), ident)
    out.document(story)
    if not as_json:
        out.tree(_story_tree(story))
    if story["erased"]:
        out.line(f"erased, of this turn or one that it led to: {', '.join(map(str, story['erased']))}")


@chain.command("stats")
def stats(since: Since = None, until: Until = None, data: Data = None, as_json: AsJson = False) -> None:
    """Count what the ledger holds: kinds, processes, denials, doubts, tokens, bytes, entries over time."""
    from weftos.audit.auditor import Auditor
    from weftos.audit.stats import statistics

    out = Output(as_json)
    with out.progress("reading the ledger") as progress:
        records = Auditor(data_directory(data), progress).select(selected(since=since, until=until))
        found = statistics(records)
    out.document(found)
    out.say(
        f"{found['entries']} entries from {moment(found['first_us'])} to {moment(found['last_us'])}, "
        f"{found['erased']} erased"
    )
    out.say(
        f"{found['bytes']['leaves']} bytes of entries, {found['bytes']['bodies']} of bodies; "
        f"{found['tokens']['input']} tokens read and {found['tokens']['output']} written "
        f"in {found['tokens']['answers']} answers"
    )
    denied = ", ".join(f"{tool} {count}" for tool, count in found["denials"]["tools"].items())
    out.line(f"{found['denials']['count']} calls denied{': ' if denied else ''}{denied}")
    out.say(f"{found['doubts']['arisen']} doubts, {found['doubts']['resolved']} resolved\n")
    out.table(("KIND", "ENTRIES"), found["kinds"].items())
    out.say("")
    out.table(
        ("PID", "ADDRESS", "ENTRIES"),
        ((item["pid"], item["address"], item["entries"]) for item in found["processes"]),
        keys=2,
    )
    out.say("")
    block = "█" if draws() else "#"
    most = max((item["entries"] for item in found["rate"]), default=1) or 1
    out.table(
        ("FROM", "ENTRIES", ""),
        (
            (moment(item["from_us"]), item["entries"], block * -(-item["entries"] * _BAR_CELLS // most))
            for item in found["rate"]
        ),
    )


def _took(duration_us: int | None) -> str:
    if duration_us is None:
        return "open"
    return f"{duration_us / 1000:.0f} ms" if duration_us < 1_000_000 else duration(duration_us / 1e6)


def _story_tree(story: Json) -> Branch:
    begun = story["attempts"][0]["time_us"]
    took = "" if story["ended_us"] is None else f", {_took(story['ended_us'] - begun)}"
    tree = Branch(
        joined(
            styled(f"turn {story['turn']}", "bold"),
            styled(f" of {story['address']}, session {story['session']}: "),
            styled(str(story["status"])),
            styled(took),
        )
    )
    message = story["message"]
    asked = tree.add(styled("asked", "bold"))
    if message is not None:
        said = _said((message["body"] or {}).get("text", "(erased)"))
        asked.add(styled(f"{message['seq']}  {moment(message['time_us'])}  {said}"))
    asked.add(styled(story["sent_by"] or "who sent it is not known"))
    for attempt in story["attempts"][1:]:
        tree.add(
            styled(f"{attempt['seq']}  begun again by pid {attempt['pid']} {moment(attempt['time_us'])}")
        )
    for step in story["steps"]:
        _TELL[step["step"]](tree, step)
    answer = story["answer"]
    answered = tree.add(styled("answered" if answer else "not answered yet", "bold"))
    if answer:
        told = "(erased)" if answer["reply"] is None else f"{answer['status']}: {_said(answer['reply'])}"
        answered.add(styled(f"{answer['seq']}  {told}"))
    return tree


def _head(tree: Branch, step: Json, what: str) -> Branch:
    took = _took(step["ended_us"] - step["time_us"]) if step["status"] != "open" else "open"
    forgotten = f", forgotten by {step['forgotten']}" if "forgotten" in step else ""
    return tree.add(
        joined(
            styled(f"{step['ordinal']}  "),
            styled(what, "bold"),
            styled(f"  {took}  "),
            styled(f"{step['status']}{forgotten}"),
        )
    )


def _tell_model(tree: Branch, step: Json) -> None:
    node = _head(tree, step, f"model {step.get('provider', '')} {step.get('model', '')}")
    for said in _messages(step.get("new_messages")):
        node.add(styled(f"heard  {said}"))
    if request := step.get("request"):
        count = request["messages"]
        proved = f"{count} messages in all, as they were hashed"
        node.add(styled(f"not proved: {request['fault']}" if count is None else proved))
    answer = step.get("answer")
    if isinstance(answer, dict):
        if answer.get("text"):
            node.add(styled(f"said  {_said(answer['text'])}"))
        for call in answer.get("tool_calls") or []:
            node.add(styled(f"asked for  {_said(str(call.get('name')))} {_said(str(call.get('arguments')))}"))
        node.add(styled(f"{step['input_tokens']} tokens read, {step['output_tokens']} written"))


def _messages(messages: object) -> list[str]:
    if not isinstance(messages, list):
        return [_said(str(messages))] if messages is not None else []
    return [
        _said(f"{item.get('role')}: {item.get('content')}") for item in messages if isinstance(item, dict)
    ]


def _tell_tool(tree: Branch, step: Json) -> None:
    node = _head(tree, step, f"tool {step.get('tool', '')}")
    if "arguments" in step:
        node.add(styled(f"proposed  {_said(step['arguments'])}"))
    for verdict in step.get("verdicts", []):
        reasons = f": {'; '.join(map(str, verdict['reasons']))}" if verdict["reasons"] else ""
        node.add(styled(f"{verdict['seq']}  judged  {verdict['decision']}{reasons}"))
    for intent in step.get("intents", []):
        node.add(
            styled(f"{intent['seq']}  intended  attempt {intent['attempt']}, effects {intent['effects']}")
        )
    for outcome in step.get("outcomes", []):
        cut = ", cut" if outcome["truncated"] else ""
        node.add(styled(f"{outcome['seq']}  came out  {outcome['status']}{cut}: {_said(outcome['result'])}"))
    if resolved := step.get("resolved"):
        node.add(styled(f"{resolved['seq']}  resolved  {resolved['resolution']}, by {resolved['by']}"))


def _tell_value(tree: Branch, step: Json) -> None:
    _head(tree, step, f"was given  {step.get('op', '')}").add(styled(_said(str(step.get("value")))))


_TELL = {"model": _tell_model, "tool": _tell_tool, "value": _tell_value}


def _said(text: str) -> str:
    from weftos.audit.auditor import shortened

    return shortened(text, _SAID_CHARACTERS)

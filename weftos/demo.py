"""``make demo``: one node, a small team of agents, a crash, and an audit, told as a story.

Everything shown is the real command, run as a person would run it, on a real node (Ray, real processes, a real
ledger) in a temporary directory. Where the story claims something, it checks it: a claim that does not hold ends the
demo with exit status 1.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console
from rich.padding import Padding
from rich.rule import Rule
from rich.text import Text

from chain.reader import EntryRecord, read_records
from kernel.session import session_members
from weftos.client import Client
from weftos.control import Json

WIDTH = 112
NOTES = "weft: the threads that run across\nwarp: the threads that run along\nselvedge: the edge that does not fray\n"
TEN_CALLS = " then ".join(f"write page {page} to page{page}.txt" for page in range(1, 11))
TRIES = 5


class ClaimFailed(Exception):
    """Something the story says is not so."""


class Story:
    """The narrator: chapters, commands and what they print."""

    def __init__(self, engine: str) -> None:
        self.engine = engine
        self.home = Path(tempfile.mkdtemp(prefix="weftos-demo-"))
        self.data = self.home / "node"
        self.desk = self.home / "desk"
        self.console = Console(width=WIDTH, highlight=False, soft_wrap=True)
        self.started = time.monotonic()
        self.chapters = 0

    def chapter(self, title: str, *lines: str) -> None:
        self.chapters += 1
        self.console.print()
        at = f"{time.monotonic() - self.started:4.1f} s"
        self.console.print(
            Rule(f"[bold]{self.chapters}. {title}[/bold]  [dim]{at}[/dim]", align="left", style="cyan")
        )
        for line in lines:
            self.console.print(line, style="italic")

    def say(self, text: str) -> None:
        self.console.print(Text(text), style="italic")

    def proven(self, text: str, *, holds: bool) -> None:
        """A claim, checked."""
        if not holds:
            raise ClaimFailed(text)
        self.console.print(Text.assemble(("  ✓ ", "bold green"), text))

    def weftos(self, *words: str, fails: bool = False, lines: int = 0, shown: str = "") -> str:
        """Run a command and show it with what it printed (``lines``: only the last ones)."""
        self.console.print(
            Text.assemble(("\n  $ ", "bold"), (f"weftos {shown or ' '.join(map(_quoted, words))}", "bold"))
        )
        environment = {**os.environ, "WEFTOS_DATA": str(self.data), "COLUMNS": str(WIDTH - 4)}
        done = subprocess.run(
            [sys.executable, "-P", "-m", "weftos", *words],
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
        )
        text = (done.stdout + done.stderr).rstrip("\n")
        kept = text.split("\n")[-lines:] if lines else text.split("\n")
        shown_text = Text("\n".join(kept), overflow="ellipsis", no_wrap=True)
        self.console.print(Padding(shown_text, (0, 0, 0, 4)), soft_wrap=False)
        if (done.returncode != 0) != fails:
            wanted = "fail" if fails else "succeed"
            raise ClaimFailed(f"weftos {words[0]} ended with status {done.returncode}; it was to {wanted}")
        return text

    def python(self, line: str) -> None:
        """Show a line of Python that is run."""
        self.console.print(Text.assemble(("  >>> ", "bold"), (line, "bold")))

    def client(self) -> Client:
        return Client(self.data)


def _quoted(word: str) -> str:
    return f'"{word}"' if " " in word else word


def boot(story: Story) -> None:
    story.chapter(
        "A node boots",
        "A node is the kernel and its helpers in a session of their own. The agents will live in cells"
        + (" (Ray actors)," if story.engine == "ray" else " (child processes),")
        + "\nwhich hold no keys and no tools: what thinks does not act.",
    )
    story.desk.mkdir()
    (story.desk / "notes.txt").write_text(NOTES)
    story.weftos("up", "--detach", "--name", "demo", "--engine", story.engine)


def team(story: Story) -> None:
    story.chapter(
        "A team under a supervisor",
        "Each agent is a process with a PID, an address, and only the tools it is given.",
    )
    desk = ("--workspace", str(story.desk))
    story.weftos("spawn", "office", "--supervisor", "--intensity", "20/60")
    under = ("--under", "/user/office")
    story.weftos("spawn", "ada", *under, "--tools", "calculator,file_write,file_read,ask", *desk)
    story.weftos("spawn", "lib", *under, "--tools", "file_read,file_list,calculator", *desk)
    story.weftos("spawn", "clerk", *under, "--tools", "file_write", *desk)
    story.weftos("tree")


def work(story: Story) -> None:
    story.chapter(
        "Real work",
        "The embedded default provider, offline, is a small deterministic planner and NOT a language model: it needs"
        "\nno key, and proposes the same tool calls a model would. Configure a provider to have a real one.",
    )
    story.weftos("send", "ada", "what is 17*23 then write it to sum.txt", "--wait")
    found = (story.desk / "sum.txt").read_text()
    story.proven(f"a worker, not the agent, wrote sum.txt: {found!r}", holds=found == "391")
    told = story.weftos("send", "ada", "ask lib read notes.txt and tell me how many lines", "--wait")
    story.proven("ada asked lib, and lib read the file: 3 lines", holds="3 line" in told)
    refused = story.weftos("send", "clerk", "read notes.txt", "--wait")
    story.proven("clerk was not given file_read, so it cannot read", holds="selvedge" not in refused)


def crash(story: Story) -> None:
    story.chapter(
        "kill -9 in the middle of a turn of ten calls",
        "The clerk writes ten pages. After the fourth, the process that hosts it is killed with SIGKILL.",
    )
    with story.client() as client:
        for _ in range(TRIES):
            before = client.inspect("clerk")
            story.weftos("ps")
            turn, reply = _kill_in_turn(story, client, before)
            if turn is not None:
                break
            story.say("The turn was over before the signal arrived; once more.")
        else:
            raise ClaimFailed(f"the turn could not be interrupted in {TRIES} tries")
        after = client.inspect("clerk")
    story.weftos("tree")
    story.proven(
        f"clerk came back: PID {before['pid']} is now PID {after['pid']}", holds=after["pid"] > before["pid"]
    )
    story.proven(f"the same turn {turn} went on and ended: {reply[:60]!r}...", holds="page10.txt" in reply)
    intents, outcomes = _calls_of(story, turn)
    pids = sorted({row["pid"] for row in intents})
    story.proven(
        f"ten intents and ten outcomes are in the ledger, by PIDs {' and '.join(map(str, pids))}: no call was repeated",
        holds=len(intents) == 10
        and len(outcomes) == 10
        and all(row["body"]["attempt"] == 1 for row in intents),
    )
    pages = sum((story.desk / f"page{page}.txt").read_text() == f"page {page}" for page in range(1, 11))
    story.proven(f"{pages} of 10 pages lie on the desk", holds=pages == 10)


def _kill_in_turn(story: Story, client: Client, before: Json) -> tuple[str | None, str]:
    """Send the ten calls, kill the cell at the fourth. The turn and its reply; no turn when it was too late."""
    story.console.print(
        Text.assemble(("\n  $ ", "bold"), ('weftos send clerk "write page 1 to page1.txt then ..."', "bold"))
    )
    turn, seen, attempts, reply = "", 0, 1, ""
    for event in client.watch("clerk", TEN_CALLS):
        if event["event"] == "turn":
            turn, attempts = event["turn"], event["attempt"]
            if attempts > 1:
                story.say(f"    turn {turn} is handed to PID {event['pid']}, attempt {attempts}")
        elif event["event"] == "tool":
            seen += 1
            if seen == 4:
                os.kill(before["os_pid"], signal.SIGKILL)
                story.console.print(Text(f"    kill -9 {before['os_pid']}", style="bold red"))
        elif event["event"] == "exit":
            story.say(f"    PID {event['pid']} exited: {event['reason']}")
        elif event["event"] == "reply":
            reply = event["reply"]
    return (turn if attempts > 1 else None), reply


def _calls_of(story: Story, turn: str | None) -> tuple[list[Json], list[Json]]:
    """Intents and outcomes of a turn, read from the journal's files."""
    intents, outcomes = (
        [
            {"pid": record.entry.pid, "body": record.body}
            for record in _entries(story, kind)
            if record.body["turn"] == turn
        ]
        for kind in ("tool.intent", "tool.outcome")
    )
    return intents, outcomes


def letters(story: Story) -> None:
    story.chapter(
        "No message vanishes",
        "A message that was accepted and then cannot be delivered becomes a dead letter, and can be replayed.",
    )
    with story.client() as client:
        story.python('client.send("clerk", "write page 1 to page1.txt then ...")')
        client.send("clerk", TEN_CALLS)
        story.python('client.send("clerk", "write late news to late.txt")')
        waiting = client.send("clerk", "write late news to late.txt")
        story.python('client.stop("clerk")')
        client.stop("clerk")
        story.say(
            f"clerk ends its turn and stops; {waiting['message']}, which waited behind it, is undeliverable."
        )
        _until(lambda: bool(client.deadletters()), "a dead letter")
        story.weftos("deadletters", "list")
        story.weftos("start", "/user/office/clerk")
        story.weftos("deadletters", "replay", waiting["message"])
        _until((story.desk / "late.txt").exists, "the replayed message to be handled")
        counts = client.status()["messages"]
    story.proven(
        f"late.txt was written after the replay: {(story.desk / 'late.txt').read_text()!r}", holds=True
    )
    ends = counts["acknowledged"] + counts["dead"] + counts["dropped"] + counts["in_flight"]
    story.proven(
        f"{counts['accepted']} accepted = {counts['acknowledged']} acknowledged + {counts['dead']} dead-lettered"
        f" + {counts['dropped']} dropped + {counts['in_flight']} in flight",
        holds=counts["accepted"] == ends,
    )


def _until(holds: object, what: str) -> None:
    """Wait until ``holds()``, at most 20 s."""
    assert callable(holds)
    deadline = time.monotonic() + 20
    while not holds():
        if time.monotonic() > deadline:
            raise ClaimFailed(f"waited 20 s for {what}")
        time.sleep(0.05)


def ledger(story: Story) -> None:
    story.chapter(
        "What happened, and why",
        "Every act was written to a signed ledger before it happened. Each entry names the one that led to it.",
    )
    story.weftos("chain", "log", "--limit", "12")
    outcomes = _entries(story, "tool.outcome")
    effect = next(record.entry.seq for record in outcomes if record.body["tool"] == "file_write")
    story.say(f"Why is there a sum.txt? From the effect, entry {effect}, back to the message and its sender:")
    story.weftos("chain", "why", str(effect))


def _entries(story: Story, kind: str) -> Iterator[EntryRecord]:
    """The entries of a kind, read from the journal's files."""
    for record in read_records(story.data / "journal"):
        if isinstance(record, EntryRecord) and record.entry.kind == kind:
            yield record


def audit(story: Story, key: str) -> None:
    story.chapter(
        "The auditor, who was not there",
        "Verification reads the files and needs a public key; it asks no daemon. The node is down meanwhile.",
    )
    story.weftos("chain", "verify", "--key", key, shown="chain verify --key VKEY")
    copy = story.home / "copy"
    shutil.copytree(story.data, copy, ignore=shutil.ignore_patterns("workspaces", "logs", "archive", "lock"))
    segment = sorted((copy / "journal").iterdir())[0]
    content = bytearray(segment.read_bytes())
    entry = next(record for record in _entries(story, "tool.proposed") if '"391"' in record.body["arguments"])
    at = content.index(b'"391"', content.index(entry.leaf)) + 1
    content[at] ^= 0x0A
    segment.write_bytes(content)
    story.say(
        f"Somebody edits one byte of a copy, byte {at}: ada seems to have written {chr(content[at])}91, not 391."
    )
    found = story.weftos(
        "chain",
        "verify",
        "--data",
        str(copy),
        "--key",
        key,
        fails=True,
        shown="chain verify --data COPY --key VKEY",
    )
    seq = entry.entry.seq
    named = any(line.split()[:1] == [str(seq)] for line in found.splitlines())
    story.proven(f"verification fails with exit status 1 and names entry {seq}", holds=named)


def stop(story: Story, node: Json) -> None:
    story.weftos("down")
    story.proven("no process of the node is left", holds=not session_members(node["os_pid"]))


def tell(story: Story) -> None:
    """The chapters, in order."""
    boot(story)
    with story.client() as client:
        node = client.status()
    team(story)
    work(story)
    crash(story)
    letters(story)
    ledger(story)
    key = story.weftos("chain", "key").splitlines()[0].strip()
    story.chapter("The node stops")
    stop(story, node)
    audit(story, key)


def main(argv: Sequence[str] | None = None) -> int:
    """Tell the story. Exit status 1 when a claim of it does not hold."""
    parser = argparse.ArgumentParser(prog="weftos.demo", description=__doc__)
    parser.add_argument("--engine", choices=("ray", "local"), default="ray")
    parser.add_argument("--keep", action="store_true", help="keep the data directory")
    args = parser.parse_args(argv)
    story = Story(args.engine)
    failed = ""
    try:
        tell(story)
    except ClaimFailed as error:
        failed = str(error)
    finally:
        with contextlib.suppress(Exception):
            subprocess.run(
                [sys.executable, "-P", "-m", "weftos", "down", "--data", str(story.data)],
                capture_output=True,
                timeout=60,
            )
        if not args.keep and not failed:
            shutil.rmtree(story.home, ignore_errors=True)
    story.console.print()
    if failed:
        story.console.print(
            Text(f"✗ does not hold: {failed}\n  the data is kept in {story.home}", style="bold red")
        )
        return 1
    story.console.print(
        Rule(f"[bold green]everything held[/]  {time.monotonic() - story.started:.1f} s", style="green")
    )
    if args.keep:
        story.console.print(f"the node's data is in {story.data}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

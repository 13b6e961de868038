"""The chapters of the story, in their order: each runs, shows and checks one thing."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path

import weftos
from chain.entry.reader import EntryRecord, read_records
from kernel.helper.os_session import session_members
from weftos.client.client import Client
from weftos.demo.story import ClaimFailed, Story
from weftos.json_object import Fields

NOTES = (
    "weft: the threads that run across\n"
    "warp: the threads that run along\n"
    "selvedge: the edge that does not fray\n"
)
TEN_CALLS = " then ".join(f"write page {page} to page{page}.txt" for page in range(1, 11))
TEN_SHORT = "write page 1 to page1.txt then ..."
FACT = "the loom is in room 12"
TRIES = 5


def boot(story: Story) -> None:
    where = "Ray actors on one shared Ray" if story.engine == "ray" else "child processes"
    story.chapter(
        "Three nodes boot and find each other",
        "A node is the kernel: it decides, records, acts. Agents live in cells ("
        + where
        + ") without keys or tools:",
        "what thinks does not act. The nodes speak Noise over ZeroMQ and know each other by the keys of their ledgers.",
    )
    story.desk.mkdir()
    (story.desk / "notes.txt").write_text(NOTES)
    count = str(len(story.nodes))
    engine = ("--engine", story.engine)
    story.weftos(
        "cluster", "up", "-n", count, "--data", str(story.cluster), *engine, shown=f"cluster up -n {count}"
    )
    with story.client("n1") as client:
        story.until(lambda: _peers(client) == {"up"}, "the links between the nodes")
    story.weftos("nodes", on="n1")


def _peers(client: Client) -> set[str]:
    return {row["state"] for row in client.cluster.nodes() if not row["self"]}


def team(story: Story) -> None:
    story.chapter(
        "Agents on all of them",
        "Each agent is a process with a PID, under a supervisor, with the tools it is given and no others.",
    )
    desk = ("--workspace", str(story.desk))
    story.weftos("spawn", "office", "--supervisor", "--intensity", "20/60", on="n1")
    under = ("--under", "/user/office")
    story.weftos(
        "spawn",
        "ada",
        *under,
        "--tools",
        "calculator,file_write,ask,memory_write,memory_search",
        *desk,
        on="n1",
    )
    story.weftos("spawn", "clerk", *under, "--tools", "file_write", *desk, on="n1")
    story.weftos("spawn", "lib", "--tools", "file_read,calculator", *desk, on="n2")
    story.weftos("spawn", "abacus", "--on", "n3", "--tools", "calculator", on="n1")
    with story.client("n3") as client:
        story.until(lambda: len(client.cluster.ps()) >= 7, "the adverts of all nodes")
    story.weftos("ps", "--cluster", on="n3")


def work(story: Story) -> None:
    story.chapter(
        "Real work, across nodes",
        "The embedded default provider, offline, is a small deterministic planner and NOT a language model: it needs",
        "no key, and proposes the same tool calls a model would. Configure a provider to have a real one.",
    )
    story.weftos("send", "ada", "what is 17*23 then write it to sum.txt", "--wait", on="n1")
    found = (story.desk / "sum.txt").read_text()
    story.proven(f"a worker, not the agent, wrote sum.txt: {found!r}", holds=found == "391")
    question = "ask lib@n2 read notes.txt and tell me how many lines"
    told = story.weftos("send", "ada", question, "--wait", on="n1")
    story.proven(
        "lib may read files and ada may not: asked by ada, lib does not either", holds="3 line" not in told
    )
    told = story.weftos("send", "ada", "ask abacus@n3 what is 6*7", "--wait", on="n1")
    story.proven("ada on n1 asked abacus on n3 and got its answer", holds="42" in told)
    story.weftos("send", "ada", f"remember {FACT}", "--wait", on="n1")


def crash(story: Story) -> None:
    story.chapter(
        "kill -9 in the middle of a turn of ten calls",
        "The clerk writes ten pages. After the fourth, the process that hosts it is killed with SIGKILL.",
    )
    with story.client("n1") as client:
        for _ in range(TRIES):
            before = client.inspect("clerk")
            turn, reply = _kill_in_turn(story, client, before)
            if turn is not None:
                break
            story.say("The turn was over before the signal arrived; once more.")
        else:
            raise ClaimFailed(f"the turn could not be interrupted in {TRIES} tries")
        after = client.inspect("clerk")
    story.weftos("tree", on="n1")
    story.proven(
        f"clerk came back: PID {before['pid']} is now PID {after['pid']}", holds=after["pid"] > before["pid"]
    )
    story.proven(f"the same turn {turn} went on to its end", holds="page10.txt" in reply)
    intents = [record for record in _entries(story, "n1", "tool.intent") if record.body["turn"] == turn]
    outcomes = [record for record in _entries(story, "n1", "tool.outcome") if record.body["turn"] == turn]
    pids = sorted({record.entry.pid for record in intents})
    story.proven(
        f"ten intents and ten outcomes are in the ledger, by PIDs {' and '.join(map(str, pids))}: no call was repeated",
        holds=len(intents) == 10 == len(outcomes) and all(record.body["attempt"] == 1 for record in intents),
    )
    pages = sum((story.desk / f"page{page}.txt").read_text() == f"page {page}" for page in range(1, 11))
    story.proven(f"{pages} of 10 pages lie on the desk", holds=pages == 10)


def _kill_in_turn(story: Story, client: Client, before: Fields) -> tuple[str | None, str]:
    """Send the ten calls, kill the cell at the fourth. The turn and its reply; no turn when it was too late."""
    story.console.print()
    story.typed("n1$", f'weftos send clerk "{TEN_SHORT}"')
    turn, seen, attempts, reply = "", 0, 1, ""
    for event in client.watch("clerk", TEN_CALLS):
        match event["event"]:
            case "turn":
                turn, attempts = event["turn"], event["attempt"]
                if attempts > 1:
                    story.say(f"    turn {turn} is handed to PID {event['pid']}, attempt {attempts}")
            case "tool":
                seen += 1
                if seen == 4:
                    os.kill(before["os_pid"], signal.SIGKILL)
                    story.act(f"kill -9 {before['os_pid']}")
            case "exit":
                story.say(f"    PID {event['pid']} exited: {event['reason']}")
            case "reply":
                reply = event["reply"]
    return (turn if attempts > 1 else None), reply


def node_lost(story: Story) -> None:
    story.chapter(
        "A whole node is killed with kill -9",
        "Its peers say so. A message to it is kept, tried, and at its deadline becomes a dead letter: none vanishes.",
    )
    with story.client("n3") as client:
        lost = client.status()
    for pid in session_members(lost["os_pid"]):
        os.kill(pid, signal.SIGKILL)
    story.act(f"kill -9 of n3, process {lost['os_pid']}, and all it had started")
    shutil.copytree(story.data("n3") / "ledger", story.home / "older")
    with story.client("n1") as client:
        story.until(lambda: "lost" in _peers(client), "n1 to notice")
        story.weftos("nodes", on="n1")
        sent = client.send("abacus@n3", "what is 1+1")
        story.typed(">>>", 'client.send("abacus@n3", "what is 1+1")')
        story.until(lambda: bool(client.deadletters()), "the dead letter")
        story.weftos("deadletters", "list", on="n1")
        story.weftos("cluster", "up", "--data", str(story.cluster), shown="cluster up")
        story.until(lambda: _peers(client) == {"up"}, "n3 to be back")
        story.weftos("deadletters", "replay", sent["message"], on="n1")
    with story.client("n3") as client:
        story.until(
            lambda: client.status()["messages"]["acknowledged"] >= 2, "the replayed message to be handled"
        )
        handled = client.inspect("abacus")
    story.proven(
        f"abacus is back on n3 as PID {handled['pid']} and has handled the replayed message", holds=True
    )
    for name in story.nodes:
        with story.client(name) as client:
            counts: Fields = client.status()["messages"]
        ways = ("acknowledged", "dead", "dropped", "in_flight")
        sum_of = " + ".join(f"{counts[way]} {way.replace('_', ' ')}" for way in ways)
        balanced = counts["accepted"] == sum(counts[way] for way in ways)
        story.proven(f"{name}: {counts['accepted']} accepted = {sum_of}", holds=balanced)


def recall(story: Story) -> None:
    story.chapter(
        "What was learned is found again",
        "Search joins words (BM25) and vectors of letter groups. The default embedder is lexical, no meanings.",
    )
    told = story.weftos("send", "ada", "what do you remember about the loom", "--wait", on="n1")
    story.proven(f"ada recalls: {FACT!r}", holds=FACT in told)
    story.weftos("memory", "search", "where is the loom", on="n1")


def why(story: Story) -> None:
    story.chapter(
        "What happened, and why",
        "Every call with effects was in a signed ledger before it ran. Each entry names the one that led to it.",
    )
    story.weftos("chain", "log", "--limit", "8", on="n1")
    outcomes = _entries(story, "n1", "tool.outcome")
    effect = next(record.entry.seq for record in outcomes if record.body["tool"] == "file_write")
    story.say(f"Why is there a sum.txt? From the effect, entry {effect}, back to the message and its sender:")
    story.weftos("chain", "why", str(effect), on="n1")


def _entries(story: Story, node: str, kind: str) -> Iterator[EntryRecord]:
    """The entries of a kind, read from the journal's files."""
    for record in read_records(story.data(node) / "journal"):
        if isinstance(record, EntryRecord) and record.entry.kind == kind:
            yield record


def stop(story: Story) -> dict[str, str]:
    """Stop the cluster. The nodes' keys, which an auditor would have from elsewhere."""
    story.chapter(
        "The nodes stop", "Each has vouched for the others: it keeps the newest head it has seen of them."
    )
    with story.client("n1") as client:
        story.until(lambda: all(held == size for held, size in _heads(story, client)), "the newest heads")
        held = ", ".join(
            f"{row['name']}'s up to entry {row['head']}" for row in client.cluster.nodes() if not row["self"]
        )
    story.proven(f"n1 holds the newest heads of its peers' ledgers: {held}", holds=True)
    leaders = []
    keys = {}
    for name in story.nodes:
        with story.client(name) as client:
            leaders.append(client.status()["os_pid"])
        keys[name] = str(story.home / f"{name}.vkeys")
        shutil.copy(story.data(name) / "keys" / "vkeys.txt", keys[name])
    story.weftos("cluster", "down", "--data", str(story.cluster), shown="cluster down")
    left = [pid for leader in leaders for pid in session_members(leader)]
    story.proven("no process of the nodes is left", holds=not left)
    return keys


def _heads(story: Story, client: Client) -> list[tuple[int, int]]:
    """For each peer: how far n1 knows its ledger, and how far it goes under both signatures."""
    pairs = []
    for row in client.cluster.nodes():
        if not row["self"]:
            with story.client(row["name"]) as peer:
                pairs.append((row["head"], peer.status()["ledger"]["full_size"]))
    return pairs


def audit(story: Story, keys: dict[str, str]) -> None:
    story.chapter(
        "The auditor, who was not there",
        "Verification reads the files and needs public keys, kept elsewhere. It asks no daemon: the nodes are down.",
    )
    for name in story.nodes:
        story.weftos(
            "chain", "verify", "--key", keys[name], on=name, shown=f"chain verify --key {name}.vkeys"
        )
    copy = story.home / "copy"
    shutil.copytree(
        story.data("n1"), copy, ignore=shutil.ignore_patterns("workspaces", "logs", "archive", "lock")
    )
    segment = sorted((copy / "journal").iterdir())[0]
    content = bytearray(segment.read_bytes())
    proposals = _entries(story, "n1", "tool.proposed")
    entry = next(record for record in proposals if '"391"' in record.body["arguments"])
    at = content.index(b'"391"', content.index(entry.leaf)) + 1
    content[at] ^= 0x0A
    segment.write_bytes(content)
    edited = f"{chr(content[at])}91"
    story.say(f"Somebody edits one byte of a copy, byte {at}: ada seems to have written {edited}, not 391.")
    words: Sequence[str] = ("chain", "verify", "--data", str(copy), "--key", keys["n1"])
    found = story.weftos(*words, fails=True, shown="chain verify --data COPY --key n1.vkeys")
    seq = entry.entry.seq
    named = any(line.split()[:1] == [str(seq)] for line in found.splitlines())
    story.proven(f"verification fails with exit status 1 and names entry {seq}", holds=named)
    story.say("Somebody shows n3's published ledger as it was when n3 was killed: whole, signed, and old.")
    words = ("chain", "verify", "--tiles", str(story.home / "older"), "--key", keys["n3"])
    found = story.weftos(*words, fails=True, shown="chain verify --tiles OLDER --key n3.vkeys")
    story.proven(
        "verification remembers the newer head that it saw above", holds="rolled back" in found.lower()
    )


def sceptic(story: Story, keys: dict[str, str]) -> None:
    script = Path(weftos.__file__).resolve().parents[1] / "tools" / "verify_weftos.py"
    if not script.exists():  # it comes with the source, not with the package
        return
    story.chapter(
        "The sceptic, who takes nobody's word",
        "One file of at most 450 lines, with pynacl and cryptography and nothing of weftos, reads what was exported.",
    )
    bundle = str(story.home / "n1.bundle")
    story.weftos(
        "chain",
        "export",
        bundle,
        "--format",
        "bundle",
        on="n1",
        shown="chain export n1.bundle --format bundle",
    )
    ed25519, ml_dsa_65 = Path(keys["n1"]).read_text().split()[:2]
    given = ("--bundle", bundle, "--key", ed25519, "--key", ml_dsa_65)
    found = story.script(script, *given, shown="--bundle n1.bundle --key ED25519 --key ML-DSA-65")
    story.proven("it verifies every entry under both keys", holds="\nverified: " in f"\n{found}")


def tell(story: Story) -> None:
    """All of it."""
    boot(story)
    team(story)
    work(story)
    crash(story)
    node_lost(story)
    recall(story)
    why(story)
    keys = stop(story)
    audit(story, keys)
    sceptic(story, keys)

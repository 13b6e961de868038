"""Probes in real workers: what a tool is handed, what its probe may answer, and what hostile ones get."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kernel.toolbox.registry import ToolSource
from kernel.worker.loader import LoadError, load_tool
from kernel.worker.workers import WorkerCall, WorkerLost, Workers

MODULE = '''
import asyncio, os, time
from pathlib import Path
from weftos import EffectId, Probed, tool

STORE = Path(__file__).with_name("store")

def book(seat: str, key: EffectId) -> str:
    """Book a seat."""
    STORE.mkdir(exist_ok=True)
    (STORE / key).write_text(seat)
    return "booked " + seat

async def book_async(seat: str, key: EffectId) -> str:
    """Book a seat."""
    return book(seat, key)

def find(key: EffectId) -> Probed:
    if (STORE / key).exists():
        return Probed("landed", {"seat": (STORE / key).read_text()})
    return Probed("not_landed")

async def find_async(key: EffectId) -> Probed:
    await asyncio.sleep(0)
    return find(key)

class Odd:
    def __eq__(self, other):
        raise ValueError("no comparison")
    __hash__ = None

def leave(key):
    raise SystemExit(3)

def fail(key):
    raise ValueError("no connection")

def of(probe):
    def hostile(seat: str, key: EffectId) -> str:
        """Book a seat."""
        return seat
    return tool(probe=probe)(hostile)

book, book_async = tool(probe=find)(book), tool(probe=find_async)(book_async)
rubbish = of(lambda key: object())
yes = of(lambda key: True)
word = of(lambda key: "landed")
nothing = of(lambda key: None)
other_word = of(lambda key: Probed("perhaps"))
odd_word = of(lambda key: Probed(Odd()))
no_json = of(lambda key: Probed("landed", object()))
odd_why = of(lambda key: Probed("unknown", why=object()))
huge = of(lambda key: Probed("landed", "x" * 5_000_000))
huge_why = of(lambda key: Probed("unknown", why="x" * 5_000_000))
leaves = of(leave)
fails = of(fail)
hangs = of(lambda key: time.sleep(1000))
dies = of(lambda key: os._exit(3))
later = of(lambda key: find_async(key))
closed = of(lambda key: Probed("unknown", why="they are closed"))
probeless = of(fail)
del probeless.__weftos_probe__
'''
NAMES = (
    "book", "book_async", "rubbish", "yes", "word", "nothing", "other_word", "odd_word", "no_json", "odd_why", "huge",
    "huge_why", "leaves", "fails", "hangs", "dies", "later", "closed", "probeless",
)  # fmt: skip
KEY = "ab" * 16


@pytest.fixture
def sources(scene: Any) -> list[ToolSource]:
    path = scene.module("probed_tools", MODULE)
    return [ToolSource(name, f"probed_tools:{name}", path) for name in NAMES]


def asking(tool: str, timeout_s: float = 30.0) -> WorkerCall:
    return WorkerCall(tool, "{}", b"", b"", b"", "", timeout_s, effect_id=KEY)


@pytest.mark.parametrize("tool", ["book", "book_async"])
def test_a_tool_is_handed_the_effect_id_of_its_intent_and_its_probe_finds_the_effect_by_it(
    scene: Any, sources: list[ToolSource], tool: str
) -> None:
    async def play(workers: Workers) -> None:
        before = await workers.probe(asking(tool))
        assert (before.status, before.landed) == ("ok", False)
        made = await workers.run(scene.mint.call(tool, {"seat": "7"}, effect_id=KEY))
        assert (made.status, made.text) == ("ok", "booked 7")
        assert [file.name for file in (scene.modules / "store").iterdir()] == [KEY]
        after = await workers.probe(asking(tool))
        assert (after.status, after.landed, after.text) == ("ok", True, '{"seat":"7"}')

    scene.run(play, sources)


def test_whoever_calls_cannot_choose_the_effect_id(scene: Any, sources: list[ToolSource]) -> None:
    """The node refuses such an argument; one that came all the same is not what the tool is handed."""

    async def play(workers: Workers) -> None:
        forged = scene.mint.call("book", {"seat": "7", "key": "mine"}, effect_id=KEY)
        assert (await workers.run(forged)).status == "ok"
        assert [file.name for file in (scene.modules / "store").iterdir()] == [KEY]
        described = await workers.describe()
        [declared] = [each for each in described.declarations if each.name == "book"]
        assert (declared.effect_parameter, declared.probe) == ("key", True)
        assert set(declared.parameters["properties"]) == {"seat"}

    scene.run(play, sources)


@pytest.mark.parametrize(
    ("tool", "words"),
    [
        ("rubbish", "the probe returned a object, which is not a Probed that says landed"),
        ("yes", "the probe returned a bool"),
        ("word", "the probe returned a str"),
        ("nothing", "the probe returned a NoneType"),
        ("other_word", "the probe returned a Probed, which is not a Probed that says landed"),
        ("odd_word", "ValueError: no comparison"),
        ("no_json", "is not text or JSON"),
        ("odd_why", "the probe returned a Probed"),
        ("leaves", "SystemExit: 3"),
        ("fails", "ValueError: no connection"),
        ("later", "the probe returned a coroutine"),
        ("probeless", "declares a probe and has none"),
        ("nobody", "'nobody' has no probe here"),
    ],
)
def test_what_a_probe_does_but_answer_is_no_answer(
    scene: Any, sources: list[ToolSource], tool: str, words: str
) -> None:
    async def play(workers: Workers) -> None:
        said = await workers.probe(asking(tool))
        assert (said.status, said.landed) == ("error", None)
        assert words in said.text

    scene.run(play, sources)


def test_what_is_too_long_is_cut(scene: Any, sources: list[ToolSource]) -> None:
    async def play(workers: Workers) -> None:
        said = await workers.probe(asking("huge"))
        assert (said.landed, said.truncated, len(said.text), said.full_bytes) == (
            True,
            True,
            2**20,
            5_000_000,
        )
        why = await workers.probe(asking("huge_why"))
        assert (why.landed, len(why.text)) == (None, 2**20)
        assert (await workers.probe(asking("closed"))).text == "they are closed"

    scene.run(play, sources)


def test_a_probe_that_hangs_is_answered_for_and_one_that_ends_its_worker_is_lost(
    scene: Any, sources: list[ToolSource]
) -> None:
    """The next probe finds another worker."""

    async def play(workers: Workers) -> None:
        late = await workers.probe(asking("hangs", timeout_s=0.2))
        assert (late.status, late.landed) == ("timeout", None)
        with pytest.raises(WorkerLost):
            await workers.probe(asking("dies"))
        assert (await workers.probe(asking("book"))).landed is False

    scene.run(play, sources)


def test_a_write_is_probed_in_the_workspace_by_what_was_there_before(scene: Any) -> None:
    async def play(workers: Workers) -> None:
        def call(content: str = "mine", **intent: Any) -> WorkerCall:
            made: WorkerCall = scene.mint.call(
                "file_write", {"path": "a", "content": content}, scene.workspace, **intent
            )
            return made

        replaces = await workers.look(call())
        asked = call()

        async def landed(before: str) -> tuple[bool | None, str]:
            probe = WorkerCall(
                "file_write", asked.arguments, b"", b"", b"", asked.workspace, 30.0, replaces=before
            )
            said = await workers.probe(probe)
            assert said.status == "ok"
            return said.landed, said.text

        assert await landed(replaces) == (False, "")
        assert (await workers.run(call(replaces=replaces))).text == "wrote 4 bytes to 'a'"
        assert await landed(replaces) == (True, "wrote 4 bytes to 'a'")
        (scene.workspace / "a").write_text("theirs")
        assert (await landed(replaces))[0] is None

    scene.run(play)


def test_a_declaration_of_a_probe_without_one_is_a_fault_of_the_tool(
    scene: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = scene.module("probeless_tools", MODULE)
    monkeypatch.syspath_prepend(path[0])
    with pytest.raises(LoadError, match="declares a probe and has none"):
        load_tool("probeless", "probeless_tools:probeless", path)
    assert load_tool("book", "probeless_tools:book", path).probe is not None
    assert not Path(path[0], "store").exists()

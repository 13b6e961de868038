"""A small node's life that does everything once, for a walk that has something fail in it.

The kernel over a real ledger with the errand of :mod:`tests.kernel.twins.errand`; behind it the upkeep: publication, a
snapshot in the place of segments, a change of keys, an erasure; a few messages between; a clean stop. The children of
the upkeep run in this process, so that what they do can fail too. Each boot is a process of its own.

What is asked of it: whoever asks is refused in plain words at most, and once the fault is over all of it is done
without a restart. Only a boot and a stop may end with the fault; then the next boot has it all.
"""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import io
import os
import pickle
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable, Container, Coroutine, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import chain.journal.pace
import chain.journal.signer
import chain.tiles.publisher
import weftos.helpers.compaction
import weftos.upkeep.upkeep
from chain.entry.reader import EntryRecord
from chain.errors import ChainError
from chain.keys.keys import create_keys
from chain.ledger.ledger import Draft, Tuning
from chain.state.history import History
from chain.tiles.tile_paths import WIDTH
from chain.verify.verify import verify
from kernel.control.asked import Asked
from kernel.control.erasure import ErasureControl
from kernel.errors import KernelError
from kernel.message.messaging import OPERATOR, Outgoing
from kernel.operations.erasure import Erase, Erasure
from kernel.slices.mailboxes import turn_id
from tests import patience
from tests.kernel.twins.errand import BOB, Errand, Outside, agreed
from tests.kernel.twins.kernel_twin import Twin, accept, kernel_twin
from tests.prove.fault_points import NO_THREAD, Fault, Given, Place, Points, QuickDisk, Watched, installed
from weftos.config.settings import Settings
from weftos.helpers import compact
from weftos.helpers.compaction import Child, Compaction, CompactionError
from weftos.upkeep import erase_selection
from weftos.upkeep.erasing import Erasing
from weftos.upkeep.key_rotation import KeyRotation
from weftos.upkeep.upkeep import Upkeep

PAUSE_S = 0.003
RETRY_S = 0.02
WELL_S = patience.HANG_S  # within which all is well again
HANG_S = 2 * patience.HANG_S  # within which a boot has ended
LASTS_S = 0.4  # a fault that nobody meets again is over then
SECRET = "the word that is to be forgotten"
CHAT = "how are you"
EXPECTED = (KernelError, ChainError, CompactionError, OSError)
_ONE_CHILD = threading.Lock()  # for there is one stdout
TUNING = Tuning(retry_s=RETRY_S, publish_s=0.05, reserve_bytes=512)


class Stuck(Exception):
    """Something that is promised has not come."""


class Stopped(Exception):
    """A task was cancelled, as a stop does it: the rest is the next boot's."""


class Life(Errand):
    """One boot's. ``step``: what is being done."""

    def __init__(self, twin: Twin, outside: Outside, points: Points) -> None:
        super().__init__(twin, outside)
        self._points = points
        self._cancelled = asyncio.Event()
        self._log: list[tuple[object, ...]] = []
        recorder = twin.kernel.recorder
        self._upkeep = Upkeep(outside.data, outside.root, Settings(), recorder, self._archive, self._note)
        self._rotation = KeyRotation(
            outside.data, recorder, lambda keys: None, lambda keys: None, self._note, retry_s=RETRY_S
        )
        self._erasure = ErasureControl(twin.kernel, self._upkeep.erasures)
        self.step = "boot"

    def _note(self, *words: object, **fields: object) -> None:
        self._log.append((*words, fields))

    async def _archive(self, op: str, args: dict[str, Any]) -> Any:
        return {}

    async def run(self) -> None:
        """Everything that no boot before has done, and a little each time."""
        helpers = [asyncio.create_task(work()) for work in (self._deliver, self._hand_over, self._decide)]
        self._upkeep.start()
        try:
            if not self._outside.seen("errand"):
                self.step = "errand"
                await self._do_errand()
                self._outside.note("errand")
            steps = (
                self._chat,
                self._publish,
                self._compact,
                self._rotate,
                self._erase,
                self._chat,
                self._be_well,
            )
            for step in steps:
                self.step = step.__name__[1:]
                await step()
        except Stopped:
            pass
        finally:
            self.step = (
                f"stop of the upkeep, after {self.step}" if sys.exc_info()[0] else "stop of the upkeep"
            )
            await asyncio.wait_for(self._upkeep.close(), WELL_S)
            for task in [*helpers, *self._turns]:
                task.cancel()
            done = await asyncio.gather(*helpers, *self._turns, return_exceptions=True)
        failed = [error for error in done if isinstance(error, Exception)]
        if failed:
            raise ExceptionGroup("the life itself failed", failed)
        self.step = "stop"

    async def _do_errand(self) -> None:
        await self._ask()
        await self._until("the errand is done", lambda: not self._open())
        await self._insist(self._twin.ledger.barrier)

    # -- a person's patience ---------------------------------------------------------------------------------------

    async def _insist(
        self, ask: Callable[[], Awaitable[object]], done: Callable[[], bool] | None = None
    ) -> None:
        """Ask until it is answered, or ``done``."""
        deadline, last = time.monotonic() + WELL_S, ""
        while time.monotonic() < deadline:
            if done is not None and done():
                return
            try:
                await ask()
            except EXPECTED as error:
                last = f"{type(error).__name__}: {error}"
            except RuntimeError as error:
                if str(error) != NO_THREAD:
                    raise
                last = str(error)
            else:
                return
            self._heal_in_time()
            await asyncio.sleep(PAUSE_S)
        raise Stuck(f"refused for {WELL_S:g} s: {last}; {self._said_last()}")

    async def _until(self, what: str, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + WELL_S
        while not holds():
            if time.monotonic() > deadline:
                raise Stuck(f"not within {WELL_S:g} s: {what}; {self._said_last()}")
            self._heal_in_time()
            await asyncio.sleep(PAUSE_S)

    _since = 0.0

    def _heal_in_time(self) -> None:
        if self._cancelled.is_set():
            raise Stopped
        if self._points.came and not self._points.over():
            self._since = self._since or time.monotonic()
            if time.monotonic() - self._since > LASTS_S:
                self._points.heal()

    def _said_last(self) -> str:
        return f"ledger {self._twin.ledger.faults}, log {self._log[-3:]}"

    # -- the steps -------------------------------------------------------------------------------------------------

    async def _chat(self) -> None:
        await self._send(CHAT)

    async def _send(self, words: str) -> tuple[int, str]:
        """Have bob answer; the entry of the message, and its text, which no other has."""
        sent: list[tuple[int, str]] = []

        async def send() -> None:
            number = len(self._outside.seen("extra"))
            out = Outgoing(OPERATOR, BOB, f"{words} {number}.", f"s{number}", bytes(16), -1)
            mail, ticket = accept(self._twin.kernel, out)
            self._outside.note("extra", mail.id)
            await ticket.durable()
            self._outside.note("sent", mail.id)
            sent.append((mail.seq, out.text))

        await self._insist(send)
        await self._until("bob has answered", lambda: not self._open())
        return sent[0]

    async def _fill(self) -> None:
        """Have more than a tile holds, once."""
        if self._outside.seen("filled"):
            return
        drafts = [Draft("node.clock", {"ahead_us": number}) for number in range(WIDTH)]

        async def fill() -> None:
            await self._twin.ledger.commit(drafts, durable=True).durable()
            self._outside.note("filled")

        await self._insist(fill)

    async def _publish(self) -> None:
        await self._insist(self._twin.ledger.publish)

    async def _compact(self) -> None:
        """Begin a segment; the rest comes by itself."""
        await self._insist(self._twin.ledger.upkeep.roll)
        await self._until("the segments before are gone", lambda: self._segments() == 1)

    def _segments(self) -> int:
        return sum(name.endswith(".wj") for name in os.listdir(self._outside.data / "journal"))

    async def _rotate(self) -> None:
        pairs = len(self._twin.ledger.keys.pairs)
        await self._insist(
            partial(self._rotation.rotate, "to see it"), lambda: len(self._twin.ledger.keys.pairs) > pairs
        )
        await self._until("the keys before are gone", lambda: self._key_directories() == ["keys"])

    def _key_directories(self) -> list[str]:
        return sorted(name for name in os.listdir(self._outside.data) if name.startswith("keys"))

    async def _erase(self) -> None:
        seq, text = await self._send(SECRET)
        erasing = self._twin.kernel.state.erasing

        async def erase() -> None:
            asked = Asked({"uid": 0, "os_pid": 1}, Erasure.erase, self._twin.kernel.recorder)
            await self._erasure.erase(asked, Erase("to see it", seqs=[seq]))

        await self._insist(erase, lambda: bool(erasing))
        await self._until("it is erased", lambda: not erasing)
        self._outside.note("erased", text)

    async def _be_well(self) -> None:
        """After the fault: no part says that it does not work, and everything does."""
        await self._until("nothing is at fault", lambda: not self._twin.ledger.faults)
        await self._insist(self._twin.ledger.publish)
        state = self._twin.kernel.state
        tally = state.tally
        if tally.accepted != tally.acknowledged + state.in_flight + tally.dead + tally.dropped:
            raise Stuck(f"conservation: {tally}, {state.in_flight} in flight")
        left = state.in_flight, len(state.turns), len(state.intents), state.kept_bytes, len(state.erasing)
        if any(left) or len(state.documents) != 1:
            raise Stuck(f"left: {left}, {len(state.documents)} documents")

    # -- cancelled -------------------------------------------------------------------------------------------------

    def watched(self, work: Callable[..., Any]) -> Callable[..., Any]:
        """A task's coroutine that is cancelled where the points say; the node is stopped then."""

        async def run(*of: Any) -> None:
            await Watched(work(*of), self._points, self._cancel)

        return run

    def _cancel(self) -> None:
        self._cancelled.set()
        task = asyncio.current_task()
        assert task is not None
        task.cancel()


async def run_here(points: Points, child: Child, told: bytes = b"") -> bytes:
    """As :func:`weftos.helpers.compaction.run_child`, in a thread; a caller that is cancelled ends it."""
    program = {"weftos.helpers.compact": compact, "weftos.upkeep.erase_selection": erase_selection}[
        child.argv[3]
    ]
    out, err, ident = io.StringIO(), io.StringIO(), 0

    def work() -> int:
        nonlocal ident
        ident = threading.get_ident()
        try:
            with (
                _ONE_CHILD, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err),
                patch.object(sys, "stdin", io.StringIO(told.decode())),
            ):  # fmt: skip
                status: int = program.main(child.argv[4:])
                return status
        except Given:
            return -9
        except Exception:
            err.write(traceback.format_exc())
            return 1
        finally:
            points.killed.discard(ident)

    loop = asyncio.get_running_loop()
    done: asyncio.Future[int] = loop.create_future()
    threading.Thread(target=lambda: loop.call_soon_threadsafe(done.set_result, work())).start()
    try:
        status = await asyncio.shield(done)
    except asyncio.CancelledError:
        points.killed.add(ident)
        await asyncio.wait([done])
        raise
    if status:
        raise CompactionError(err.getvalue().strip()[-500:])
    return out.getvalue().encode()


def _in_haste(points: Points) -> ExitStack:
    """What waits for seconds waits for moments, and children of the upkeep are threads."""
    stack = ExitStack()
    for module, name, value in (
        (chain.journal.pace, "LONE_GROUPS", 0),
        (chain.journal.signer, "RETRY_S", RETRY_S),
        (chain.journal.signer, "INTERVAL_S", 0.002),
        (chain.tiles.publisher, "RETRY_S", RETRY_S),
        (weftos.helpers.compaction, "LOOK_S", 0.01),
        (weftos.helpers.compaction, "RETRY_S", RETRY_S),
        (weftos.helpers.compaction, "MOST_DOUBLINGS", 0),
        (weftos.helpers.compaction, "run_child", partial(run_here, points)),
        (weftos.upkeep.upkeep, "run_child", partial(run_here, points)),
        (weftos.upkeep.upkeep, "Erasing", partial(Erasing, retry_s=RETRY_S)),
        (weftos.upkeep.upkeep, "Compaction", _compacts_at_once),
        (compact, "die_with_parent", lambda: None),
        (erase_selection, "die_with_parent", lambda: None),
        (os, "nice", lambda more: 0),
    ):
        stack.enter_context(patch.object(module, name, value))
    stack.enter_context(installed(points))
    return stack


def _compacts_at_once(ledger: Any, data: Path, child: Child, compact_bytes: int, log: Any) -> Compaction:
    return Compaction(ledger, data, child, 1, log)


async def live(outside: Outside, points: Points, says: Callable[[str], None]) -> None:
    """One boot. ``says``: which step it is at."""
    async with kernel_twin(outside.data, disk=QuickDisk(), tuning=TUNING) as twin:
        life = Life(twin, outside, points)
        with (
            patch.object(Compaction, "_watch", life.watched(Compaction._watch)),
            patch.object(Erasing, "_work", life.watched(Erasing._work)),
            patch.object(KeyRotation, "_finish_late", life.watched(KeyRotation._finish_late)),
        ):
            try:
                await life.run()
            finally:
                says(life.step)


def begin(outside: Outside) -> None:
    """Make the keys, and pin them."""
    keys = create_keys(outside.data / "keys")
    (outside.root / "pinned").write_text(keys.pair.text)


@dataclass(frozen=True, slots=True)
class Told:
    """How a boot ended: ``done``, ``refused`` (by a boot or a stop, in words), ``killed`` or ``failed``. ``counts`` of
    the places that were met.
    """

    how: str
    why: str
    came: bool
    counts: Counter[Place]


def boot(outside: Outside, fault: Fault | None = None) -> Told:
    """One boot, in a process of its own."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(ours)
            ended = _boot(outside, Points(fault))
        except BaseException:
            ended = Told("failed", traceback.format_exc(), True, Counter())
        try:
            with open(theirs, "wb") as pipe:
                pipe.write(pickle.dumps(ended))
        finally:
            os._exit(0)
    os.close(theirs)
    with open(ours, "rb") as pipe:
        said = pipe.read()
    _, status = os.waitpid(child, 0)
    if said:
        told: Told = pickle.loads(said)
        return told
    if os.WIFSIGNALED(status):
        return Told("killed", "", True, Counter())
    return Told("failed", f"hangs: {(outside.root / 'hung').read_text()}", True, Counter())


def _boot(outside: Outside, points: Points) -> Told:
    step, broken = "boot", []

    def says(now: str) -> None:
        nonlocal step
        step = now

    threading.excepthook = lambda args: broken.append(_words(args.exc_value))
    with (outside.root / "hung").open("w") as file:
        faulthandler.dump_traceback_later(HANG_S, exit=True, file=file)
        how, why = "done", ""
        try:
            with _in_haste(points):
                asyncio.run(_listened(live(outside, points, says), broken))
        except Exception as error:
            expected = isinstance(error, EXPECTED) or str(error) == NO_THREAD
            how = "refused" if step in ("boot", "stop") and expected else "failed"
            why = f"at {step}: {_words(error)}"
        faulthandler.cancel_dump_traceback_later()
    if broken and how != "failed":
        how, why = "failed", f"broke off: {broken[:2]}"
    return Told(how, why, points.came, points.counts)


async def _listened(work: Coroutine[Any, Any, None], broken: list[str]) -> None:
    """What nobody hears is told."""

    def heard(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        broken.append(f"{context['message']}: {_words(context.get('exception'))}")

    asyncio.get_running_loop().set_exception_handler(heard)
    await work


def _words(error: BaseException | None) -> str:
    if error is None:
        return ""
    places = [f"{frame.name}:{frame.lineno}" for frame in traceback.extract_tb(error.__traceback__)[-4:]]
    inner = [_words(one) for one in error.exceptions] if isinstance(error, BaseExceptionGroup) else ""
    return f"{type(error).__name__}: {error} {inner} ({' > '.join(places)})"


def faults(outside: Outside) -> Iterator[str]:
    """What is wrong with the world, the ledger and the directory, once all is done and the node has stopped."""
    data = outside.data
    for finding in verify(data, (outside.root / "pinned").read_text().split()).findings:
        yield f"verify: {finding}"
    found = list(History(data).entries())
    extra = {ident for [ident] in outside.seen("extra")}
    turns = {turn_id(ident) for ident in extra}
    yield from agreed(outside, [record for record in found if not _is_of(record, extra, turns)])
    subjects = Counter((record.entry.kind, record.entry.subject) for record in found)
    for [ident] in outside.seen("sent"):
        for kind, subject in (("message.accepted", ident), ("turn.ended", turn_id(ident))):
            if subjects[kind, subject] != 1:
                yield f"message {ident} was accepted: {subjects[kind, subject]} entries {kind}"
    erased = [text for [text] in outside.seen("erased")]
    for path in sorted(path for path in data.rglob("*") if path.is_file()):
        if path.name.endswith(".new"):
            yield f"{path.relative_to(data)} is left"
        content = path.read_bytes()
        if any(text.encode() in content for text in erased):
            yield f"{path.relative_to(data)} still holds what was erased"
    if keys := [path.name for path in data.glob("keys*") if path.name != "keys"]:
        yield f"{keys} are left"


def _is_of(record: EntryRecord, messages: Container[str], turns: Container[str]) -> bool:
    return record.entry.subject in messages or record.entry.subject in turns

"""Workers: what acts. They take a call at once or let it wait, do it sooner or later, and answer later still.

They keep the rules of :class:`kernel.worker.pool.WorkerPool`: before a call is handed over its caller is asked once
more, one that is cancelled by then is not made, at its deadline one with effects is killed with its neighbours.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from chain.entry.entry import decode_body
from chain.proofs.receipt import Receipt
from kernel.toolbox.arguments import parse_arguments
from kernel.worker.intent import Spent
from kernel.worker.pool import Placed
from kernel.worker.workers import (
    Came,
    WorkerCall,
    WorkerLost,
    WorkerResult,
    WorkerUnavailable,
    WorkerWithdrawn,
)
from tests.simulation.ledger import SimulatedLedger
from tests.simulation.world import HandedOver, World

ABSENT = "absent"


@dataclass(eq=False)
class Job:
    call: WorkerCall
    begin: Callable[[], bool]
    ended: Callable[[Came], None]
    turn: str
    done: bool = False
    attempt: HandedOver | None = None
    timers: list[asyncio.TimerHandle] = field(default_factory=list)


class SimulatedWorkers:
    def __init__(self, world: World, ledger: SimulatedLedger) -> None:
        self._world, self._ledger = world, ledger
        self._spent = Spent()
        self.queue: OrderedDict[Job, None] = OrderedDict()
        self._jobs: OrderedDict[Job, None] = OrderedDict()

    # -- what the node asks ----------------------------------------------------------------------------------------

    def put(self, call: WorkerCall, begin: Callable[[], bool], ended: Callable[[Came], None]) -> Placed:
        receipt = Receipt.decode(call.receipt)
        if not self._spent.claim(receipt.index):
            self._world.broken(f"intent {receipt.index} is handed to a worker a second time")
        job = Job(call, begin, ended, str(decode_body(call.body)["turn"]))
        self._queue_up(job)

        def take_back() -> None:
            job.done = True
            self.queue.pop(job, None)

        def stop(why: str) -> None:
            if list(self._jobs) == [job]:  # else others need the process
                self.lose(why)

        return Placed(take_back, stop)

    async def look(self, call: WorkerCall, begin: Callable[[], bool] = lambda: True) -> str:
        arguments = parse_arguments(call.arguments, 10_000)
        await asyncio.sleep(self._world.delay_s())
        if not begin():
            raise WorkerWithdrawn("nobody wants it")
        return self._world.files.get(arguments["path"], ABSENT)

    async def probe(self, call: WorkerCall) -> WorkerResult:
        """What became of an effect; now and then it is not to be had, or nobody answers."""
        chance = self._world.chance
        await asyncio.sleep(100.0 if chance.random() < 0.05 else self._world.delay_s())
        if chance.random() < 0.1:
            raise WorkerLost("its worker died")
        if chance.random() < 0.2:
            return _result("ok", "nobody knows")
        landed = self._landed(call)
        return replace(_result("ok", "found" if landed else ""), landed=landed)

    def _landed(self, call: WorkerCall) -> bool | None:
        if call.tool != "file_write":
            return self._world.probe(call.effect_id)
        arguments = parse_arguments(call.arguments, 10_000)
        now = self._world.files.get(arguments["path"], ABSENT)
        if now == arguments["content"]:
            return True
        return False if now == call.replaces else None

    async def close(self) -> None:
        self.lose("the node stops")
        for job in list(self.queue):
            self._settle(job, WorkerUnavailable("the node is stopping"))

    # -- what they do ----------------------------------------------------------------------------------------------

    def _queue_up(self, job: Job) -> None:
        """It is taken at once, or waits."""
        self.queue[job] = None
        chance = self._world.chance
        if chance.random() < 0.3:
            self._take(job)
        else:
            waits_s = chance.uniform(0.0, 4.0) if chance.random() < 0.4 else self._world.delay_s()
            asyncio.get_running_loop().call_later(waits_s, self._take, job)

    def _take(self, job: Job) -> None:
        """Hand it over, unless nobody wants it any more."""
        if job not in self.queue:
            return
        if self._world.chance.random() < 0.03:
            self._settle(job, WorkerUnavailable("no worker could be started"))
            return
        del self.queue[job]
        if not job.begin():
            self._settle(job, WorkerWithdrawn("nobody wants it any more"))
            return
        call, loop = job.call, asyncio.get_running_loop()
        if call.effects:
            receipt = Receipt.decode(call.receipt)
            body = decode_body(call.body)
            job.attempt = self._world.hand_over(self._ledger, body, receipt.index)
        self._jobs[job] = None
        at_s = self._world.delay_s()
        job.timers.append(loop.call_later(at_s, self._act, job))
        job.timers.append(loop.call_later(call.timeout_s, self._late, job))

    def _act(self, job: Job) -> None:
        """Do it, or fail at it with nothing done; the answer follows, or never does."""
        chance, result = self._world.chance, _result("ok", "done")
        if job.attempt is not None:
            if job.call.tool == "file_write":
                result = self._write(job, job.attempt)
            elif chance.random() < 0.1:
                result = _result("error", "refused by the other side: nothing was done")
            else:
                job.attempt.effects += 1
        if chance.random() > 0.05:
            loop = asyncio.get_running_loop()
            job.timers.append(loop.call_later(self._world.delay_s(), partial(self._answer, job, result)))

    def _write(self, job: Job, attempt: HandedOver) -> WorkerResult:
        arguments = parse_arguments(job.call.arguments, 10_000)
        path, content = arguments["path"], arguments["content"]
        now = self._world.files.get(path, ABSENT)
        if now == content:
            return _result("ok", "it is there")
        if now != decode_body(job.call.body)["replaces"]:
            return _result("changed", "somebody else has written it meanwhile")
        self._world.files[path] = content
        attempt.effects += 1
        return _result("ok", "written")

    def _answer(self, job: Job, result: WorkerResult) -> None:
        self._settle(job, result)

    def _late(self, job: Job) -> None:
        if job.attempt is None:
            self._settle(job, _result("timeout", "it did not end in time"))
        else:
            self.lose(f"{job.call.tool} did not end within {job.call.timeout_s:g} s")

    def _settle(self, job: Job, came: Came) -> None:
        self.queue.pop(job, None)
        self._jobs.pop(job, None)
        for timer in job.timers:
            timer.cancel()
        if job.attempt is not None:
            known = isinstance(came, WorkerResult) and came.status != "changed"
            job.attempt.end = "answered" if known else "lost"
        if not job.done:
            job.done = True
            job.ended(came)

    # -- what befalls them -----------------------------------------------------------------------------------------

    def lose(self, why: str) -> None:
        """The worker process is gone with all that was handed over."""
        for job in list(self._jobs):
            self._settle(job, WorkerLost(why))

    def waiting(self, turns: set[str]) -> list[str]:
        """The calls with effects of these turns that are not handed over yet."""
        held: list[Any] = [
            decode_body(job.call.body) for job in self.queue if job.turn in turns and job.call.effects
        ]
        return [f"{body['turn']}:{body['ordinal']}" for body in held]


def _result(status: Any, text: str) -> WorkerResult:
    return WorkerResult(status, text, False, "", len(text))

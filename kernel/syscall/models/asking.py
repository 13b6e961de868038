"""How the answer to a question is come by: the gateway is asked until it answers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, Protocol

from kernel.abi import ErrorKind
from kernel.bounds import Bounds
from kernel.budget.price import Price
from kernel.errors import Invalid, fault_of
from kernel.helper.helper import Answered, HelperAway, HelperLost, HelperRefused
from kernel.syscall.models.model_answer import COUNTED, UNCOUNTED, checked_answer, error_answer
from kernel.syscall.models.model_question import Said
from kernel.values import cut_bytes

log = logging.getLogger(__name__)
ATTEMPTS = 5
AGAIN_S = 0.2
LOST = "lost"


class Gateway(Protocol):
    """The gateway, as the node sees it."""

    def ask(self, request: dict[str, Any], answered: Answered) -> Callable[[], object]:
        """``digests`` are those of all messages, ``said`` the place and the message of some. The status of the answer
        is ``lost`` when there are others among them that the gateway does not have. ``answered`` is called once, in the
        very turn of the loop that hears of it and maybe before this returns: with the answer, with HelperAway while the
        gateway is down, with HelperLost when it died over the question, or with HelperRefused. What is returned has
        the answer forgotten.
        """

    def cancel(self, stream: str) -> None: ...

    def forget(self) -> None:
        """What it was told is to be erased."""

    def resolve(self, provider: str, model: str) -> tuple[str, str]:
        """Who will answer: the configured defaults in place of an empty provider or model."""
        ...

    def price(self, provider: str, model: str) -> Price | None:
        """What a resolved model costs; None: nobody has said it."""


@dataclass(frozen=True, slots=True)
class Stage:
    """What a question waits for, on the loop's clock: until ``at_s`` to be put (``back_off``), or since then for others
    at its provider (``provider_slot``), which takes nothing of its time, or for its answer (``model``).
    """

    name: Literal["back_off", "provider_slot", "model"]
    at_s: float


class Asking:
    """A question that is put to the gateway until it answers. One that is lost with it is asked again: that changes
    nothing but the bill. When it comes to nothing after all, a model may have been paid for what was lost, and nobody
    says how much.

    ``whole``: all of its messages, each once, when they are here. ``want_whole()`` is called when the gateway lacks
    some; then :meth:`told` is to be. ``over(answer)`` is called once, and maybe in :meth:`begin`. ``begins()``
    is called each time that the gateway is about to be asked. ``stands(waits)`` says when it begins to wait for what
    takes nothing of its time, and when it does no more. ``stage``: what it waits for.
    """

    def __init__(
        self,
        gateway: Gateway,
        question: dict[str, Any],
        whole: Said | None,
        bounds: Bounds,
        want_whole: Callable[[], None],
        over: Callable[[dict[str, Any]], None],
        begins: Callable[[], None],
        stands: Callable[[bool], None] = lambda waits: None,
    ) -> None:
        self._stands = stands
        self._gateway = gateway
        self._question = question
        self._whole = whole
        self._bounds = bounds
        self._want_whole = want_whole
        self._over = over
        self._begins = begins
        self.wants_whole = False
        self.stage = Stage("model", asyncio.get_running_loop().time())
        self._losses: list[HelperLost] = []
        self._number = 0  # of the request that is under way
        self._timer: asyncio.TimerHandle | None = None
        self._forget: Callable[[], object] = _nothing

    def begin_after(self, seconds: float) -> None:
        """Ask, so much later."""
        if seconds <= 0:
            self.begin()
            return
        self._enter(Stage("back_off", self.stage.at_s + seconds))
        self._timer = asyncio.get_running_loop().call_at(self.stage.at_s, self.begin)

    def begin(self) -> None:
        """Ask."""
        self._begins()
        number = self._number = self._number + 1
        self._begin_time()
        try:
            forget = self._gateway.ask(self._question, partial(self._came, number))
        except Exception as error:
            self._came(number, None, error)
        else:
            if number == self._number:  # else it has been answered
                self._forget = forget

    def _enter(self, stage: Stage) -> None:
        before, self.stage = self.stage, stage
        if (before.name == "model") != (stage.name == "model"):
            self._stands(stage.name != "model")

    def _begin_time(self) -> None:
        loop = asyncio.get_running_loop()
        self._enter(Stage("model", loop.time()))
        self._timer = loop.call_later(self._bounds.model_timeout_s, self._late)

    def queued(self, waits: bool) -> None:
        """The gateway says whether it has to wait for others. What it then may take begins when it does no more."""
        if self._forget is _nothing or self._timer is None or waits == (self.stage.name == "provider_slot"):
            return  # nothing is under way there, or it has said so
        self._timer.cancel()
        if waits:
            self._enter(Stage("provider_slot", asyncio.get_running_loop().time()))
        else:
            self._begin_time()

    def told(self, whole: Said) -> None:
        """These are all of its messages."""
        self._whole, self.wants_whole = whole, False
        self._question = {**self._question, "said": [list(one) for one in whole.items()]}
        self.begin()

    def stop(self) -> None:
        """Nobody wants the answer any more."""
        self._number += 1
        if self._timer is not None:
            self._timer.cancel()
        self._enter(Stage("model", self.stage.at_s))  # the wait was in another gateway, if it is asked again
        self._forget()
        self._forget = _nothing

    def give_up(self, why: str) -> None:
        """Nobody waits for the answer any longer, though somebody is to be answered."""
        self.stop()
        self._gateway.cancel(self._question["stream_id"])
        self._over({**error_answer(why, "cancelled"), UNCOUNTED: True})

    def _came(self, number: int, answer: Any, error: Exception | None) -> None:
        if number != self._number:
            return
        self.stop()
        try:
            taken = self._taken(answer, error)
        except Exception as fault:  # the boundary: whoever asked is answered, whatever it was
            log.error("a question to a model failed (%s): %s", self._question["stream_id"], fault_of(fault))
            taken = error_answer(f"the node failed at this question ({type(fault).__name__})", "invalid")
        if taken is not None:
            self._over(taken)

    def _taken(self, answer: Any, error: Exception | None) -> dict[str, Any] | None:
        """What is taken of it; None: it is asked again."""
        match error:
            case None if answer == {"status": LOST} and not self._says_all():
                self._say_whole()
                return None
            case None:
                try:
                    return self._counted(checked_answer(answer, self._bounds))
                except Invalid as why:
                    return _uncounted(str(why), "invalid")
            case HelperLost():
                self._losses.append(error)
                if len(self._losses) == ATTEMPTS:
                    return self._counted(_not_asked(str(error), "transport"))
                delay_s = AGAIN_S * 2 ** (len(self._losses) - 1)
                self._timer = asyncio.get_running_loop().call_later(delay_s, self.begin)
                return None
            case HelperRefused():
                return self._counted(_not_asked(str(error), "invalid"))
        raise error

    def _counted(self, taken: dict[str, Any]) -> dict[str, Any]:
        """An error says nothing of the attempts before it that were lost with a gateway."""
        silent = taken["status"] == "error" and not any(taken[name] for name in COUNTED)
        handed = any(not isinstance(loss, HelperAway) for loss in self._losses)
        return {**taken, UNCOUNTED: True} if handed and silent else taken

    def _says_all(self) -> bool:
        """Whether the question says all of its messages: who still lacks some has no answer to it."""
        return self._whole is not None and len(self._question["said"]) == len(self._whole)

    def _say_whole(self) -> None:
        if self._whole is not None:
            self.told(self._whole)
        else:
            self.wants_whole = True
            self._want_whole()

    def _late(self) -> None:
        self.stop()
        self._gateway.cancel(self._question["stream_id"])
        self._over(_uncounted(f"no answer within {self._bounds.model_timeout_s:g} s", "timeout"))


def _nothing() -> None:
    """There is nothing to forget."""


def _not_asked(why: str, kind: ErrorKind) -> dict[str, Any]:
    return error_answer(f"the model could not be asked: {cut_bytes(why, 2000)[0]}", kind)


def _uncounted(why: str, kind: ErrorKind) -> dict[str, Any]:
    """The same where the model may have answered, and been paid."""
    return {**_not_asked(why, kind), UNCOUNTED: True}

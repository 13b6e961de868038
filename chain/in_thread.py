"""A call in a thread of the loop's executor, or none at all.

An executor that cannot start a thread says so, and keeps what it was given in its queue: the next thread that it gets
does it, whatever has happened since. So ``asyncio.to_thread`` may make a call long after its caller was told that it
failed: a snapshot was put in its place then under the signatures of the one before. And nothing ends a call that has
begun: a caller that is cancelled and lets go of its lock lets another at what the call still works on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


async def in_thread(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """As ``asyncio.to_thread``. Raises RuntimeError when there is no thread: the call is not made then, nor later. A
    caller that is cancelled goes on when the call has ended, or is sure not to be made.
    """
    done: Future[T] = Future()

    def work() -> None:
        if done.set_running_or_notify_cancel():
            try:
                done.set_result(call(*args, **kwargs))
            except BaseException as error:  # the caller's, whatever it is
                done.set_exception(error)

    try:
        asyncio.get_running_loop().run_in_executor(None, work)
    except RuntimeError:
        if done.cancel():
            raise
    heard = asyncio.wrap_future(done)
    try:
        return await asyncio.shield(heard)
    except asyncio.CancelledError:
        done.cancel()
        while not heard.done():
            with suppress(asyncio.CancelledError):  # once more
                await asyncio.wait([heard])
        if not heard.cancelled():
            heard.exception()  # nobody else asks for it
        raise

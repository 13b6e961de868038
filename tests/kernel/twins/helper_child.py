"""A helper for the tests, run by path: serves the link, and can be told to misbehave."""

from __future__ import annotations

import argparse
import asyncio
import os
import select
from collections.abc import Callable
from typing import Any, NoReturn

from kernel.helper.helper import die_with_parent, serve_link

parser = argparse.ArgumentParser()
parser.add_argument("--link-fd", type=int)
parser.add_argument("--boot", type=int)
parser.add_argument("--mode", default="")
options = parser.parse_args()
tell: list[Callable[[str, dict[str, Any]], None]] = []


async def handle(op: str, args: dict[str, Any]) -> Any:
    match op:
        case "echo":
            return args
        case "open":  # as the placer answers
            return {"version": "", "address": "", "os_pids": []}
        case "raise":
            raise ValueError("the helper does not want to")
        case "huge":
            return b"x" * (17 * 2**20)
        case "rubbish":
            raise ValueError("\ud800")
        case "unpackable":
            return object()
        case "hang":
            await asyncio.Event().wait()
        case "tell":
            tell[0]("told", args)
        case "env":
            return dict(os.environ)
        case "unlink":
            os.write(options.link_fd, args["raw"])
        case "leave":
            if os.fork():
                os._exit(0)
            await_end_of_link()
    return None


def await_end_of_link() -> NoReturn:
    """Hold the link until its other end is closed."""
    poll = select.poll()
    poll.register(options.link_fd, 0)
    poll.poll()
    os._exit(0)


die_with_parent()
if options.mode != "exit":
    asyncio.run(serve_link(options.link_fd, options.boot, handle, tell.append))

"""A worker process, driven by its link: what it refuses, and that the effect did not happen."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kernel.helper.helper import Helper, HelperRefused
from kernel.shapes import told
from kernel.toolbox.arguments import canonical_json
from kernel.toolbox.rules.file_rules import ALL_FILES
from kernel.worker.requests import Configure
from kernel.worker.worker import MAX_RESULT_BYTES, answer_of, render
from kernel.worker.workers import WorkerLimits, worker_command
from tests.patience import HANG_S

ARGUMENTS = canonical_json({"path": "effect.txt", "content": "happened"})
SALT = b"s" * 32
Ask = Callable[..., Coroutine[Any, Any, dict[str, Any]]]


def with_worker(home: Path, mint: Any, scene: Callable[[Helper, Ask], Coroutine[Any, Any, None]]) -> None:
    """Run ``scene(helper, ask)`` beside one real worker of the built-in tools."""

    async def main() -> None:
        died: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
        command = worker_command("worker-builtin", home, home, WorkerLimits())
        helper = Helper(command, int(mint.boot, 16), lambda op, args: None, died.set_result)
        await helper.start()

        async def ask(
            receipt: bytes, body: bytes, tool: str = "file_write", arguments: str = ARGUMENTS
        ) -> Any:
            call = {"tool": tool, "arguments": arguments, "receipt": receipt, "salt": SALT, "body": body}
            return await asyncio.wait_for(
                helper.request("run", {**call, "workspace": str(home), "files": told(ALL_FILES)}), HANG_S
            )

        try:
            await scene(helper, ask)
        finally:
            await helper.stop()
            await asyncio.wait_for(died, HANG_S)
            assert not Path(f"/proc/{helper.os_pid}").exists()

    asyncio.run(main())


async def configure(helper: Helper, mint: Any) -> None:
    setup = told(Configure((mint.keys.ed25519.text,), True, (), ()))
    assert await helper.request("configure", setup) == {"declarations": [], "faults": {}}


def test_a_call_runs_once_with_its_intent_and_without_one_never(
    tmp_path: Path, mint: Any, foreign_mint: Any
) -> None:
    effect = tmp_path / "effect.txt"

    async def scene(helper: Helper, ask: Ask) -> None:
        await configure(helper, mint)
        body = mint.body("file_write", ARGUMENTS)
        old_boot = mint.body("file_write", ARGUMENTS, boot="00000000000000aa")
        other_arguments = mint.body("file_write", canonical_json({"path": "effect.txt", "content": "other"}))
        other_tool = mint.body("file_read", ARGUMENTS)
        refused = {
            "no receipt": (b"", body),
            "a receipt of nonsense": (b"\xc1" * 600, body),
            "a foreign key's intent": (foreign_mint.receipt(body), body),
            "an intent with other arguments": (mint.receipt(other_arguments), other_arguments),
            "an intent for another tool": (mint.receipt(other_tool), other_tool),
            "an intent of an old boot": (mint.receipt(old_boot), old_boot),
            "a verdict, not an intent": (mint.receipt(body, kind="tool.verdict"), body),
            "a body that was not committed": (mint.receipt(old_boot), body),
        }
        for what, (receipt, with_body) in refused.items():
            answer = await ask(receipt, with_body)
            assert answer["status"] == "refused", what
            assert not effect.exists(), what
        receipt = mint.receipt(body)
        assert (await ask(receipt, body))["status"] == "ok"
        assert effect.read_text() == "happened"
        effect.unlink()
        again = await ask(receipt, body)
        assert again["status"] == "refused"
        assert "was used already" in again["text"]
        assert not effect.exists()

    with_worker(tmp_path, mint, scene)


def test_one_intent_sent_many_times_at_once_runs_once(tmp_path: Path, mint: Any) -> None:
    async def scene(helper: Helper, ask: Ask) -> None:
        await configure(helper, mint)
        body = mint.body("file_write", ARGUMENTS)
        receipt = mint.receipt(body)
        answers = await asyncio.gather(*(ask(receipt, body) for _ in range(50)))
        assert sorted(answer["status"] for answer in answers) == ["ok"] + ["refused"] * 49

    with_worker(tmp_path, mint, scene)


def test_before_it_knows_the_key_it_runs_nothing_and_the_key_cannot_be_changed(
    tmp_path: Path, mint: Any, foreign_mint: Any
) -> None:
    async def scene(helper: Helper, ask: Ask) -> None:
        body = mint.body("file_write", ARGUMENTS)
        with pytest.raises(HelperRefused, match="'run' is not expected now"):
            await ask(mint.receipt(body), body)
        await configure(helper, mint)
        with pytest.raises(HelperRefused, match="'configure' is not expected now"):
            await configure(helper, foreign_mint)
        assert (await ask(foreign_mint.receipt(body), body))["status"] == "refused"
        assert not (tmp_path / "effect.txt").exists()

    with_worker(tmp_path, mint, scene)


def test_a_tool_it_does_not_have_is_an_error_for_the_model(tmp_path: Path, mint: Any) -> None:
    async def scene(helper: Helper, ask: Ask) -> None:
        await configure(helper, mint)
        body = mint.body("launch", "{}")
        answer = await ask(mint.receipt(body), body, "launch", "{}")
        assert (answer["status"], answer["text"]) == ("error", "this worker has no tool 'launch'")

    with_worker(tmp_path, mint, scene)


def test_the_environment_of_a_worker_holds_no_secret(tmp_path: Path, mint: Any) -> None:
    os.environ["WEFTOS_TEST_SECRET_KEY"] = "very secret"

    async def scene(helper: Helper, ask: Ask) -> None:
        await configure(helper, mint)
        environment = Path(f"/proc/{helper.os_pid}/environ").read_bytes()
        assert b"PATH=" in environment
        assert b"very secret" not in environment

    try:
        with_worker(tmp_path, mint, scene)
    finally:
        del os.environ["WEFTOS_TEST_SECRET_KEY"]


def test_a_worker_is_a_group_of_its_own_in_the_session_of_the_node(tmp_path: Path, mint: Any) -> None:
    async def scene(helper: Helper, ask: Ask) -> None:
        await configure(helper, mint)
        assert os.getpgid(helper.os_pid) == helper.os_pid
        assert os.getsid(helper.os_pid) == os.getsid(0)

    with_worker(tmp_path, mint, scene)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("text", "text"),
        (None, ""),
        (17, "17"),
        (2.5, "2.5"),
        (True, "true"),
        ({"b": [1], "a": "é"}, '{"a":"é","b":[1]}'),
        ((1, 2), "[1,2]"),
    ],
    ids=str,
)
def test_what_a_tool_returns_becomes_text(value: Any, text: str) -> None:
    assert render(value) == text


def circle() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


def deep() -> list[Any]:
    value: list[Any] = []
    for _ in range(100_000):
        value = [value]
    return value


@pytest.mark.parametrize(
    "make",
    [object, lambda: {1, 2}, lambda: b"bytes", lambda: float("nan"), circle, deep, partial(iter, ())],
)
def test_what_is_neither_text_nor_json_is_refused(make: Callable[[], Any]) -> None:
    with pytest.raises(TypeError, match="is not text or JSON"):
        render(make())


def test_an_answer_is_cut_at_a_character_and_keeps_size_and_hash_of_the_whole() -> None:
    text = "é" * MAX_RESULT_BYTES
    answer = answer_of("ok", "x" + text)
    assert answer.truncated
    assert answer.bytes == 1 + 2 * MAX_RESULT_BYTES
    assert len(answer.text.encode()) == MAX_RESULT_BYTES - 1
    assert answer.hash != answer_of("ok", answer.text).hash


def test_a_short_answer_is_whole_and_lone_surrogates_are_shown() -> None:
    assert answer_of("ok", "\ud800").text == r"\ud800"
    assert not answer_of("ok", "x" * MAX_RESULT_BYTES).truncated

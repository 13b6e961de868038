"""The OpenAI-compatible adapter against a real server process that misbehaves in every way we could think of."""

from __future__ import annotations

import asyncio
import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cognition.errors import ConfigurationError, ProviderError
from cognition.providers.base import ProviderBounds, Question
from cognition.providers.openai_compatible import CHAT
from cognition.providers.served.configured import check_key
from cognition.providers.served.retry import RetryPolicy
from cognition.providers.served.served import Served
from cognition.providers.served.settings import ServerSettings
from kernel.abi import ModelAnswer
from tests.patience import HANG_S
from tests.servers.processes import ModelServer, model_server

QUESTION = Question(({"role": "user", "content": "hi"},))
SMALL = ProviderBounds(answer_bytes=2000, body_bytes=8000, wire_bytes=400_000, event_bytes=4000)
SOON_SILENT = ProviderBounds(idle_s=0.3, total_s=HANG_S)
SOON_OVER = ProviderBounds(idle_s=HANG_S, total_s=1.0)
ONCE = RetryPolicy(attempts=1)
QUICK = RetryPolicy(attempts=3, base_s=0.01)


class Screen:
    """What a watcher sees."""

    def __init__(self) -> None:
        self.text = ""
        self.resets = 0
        self.waits: list[bool] = []

    def queued(self) -> None:
        self.waits.append(True)

    def begun(self) -> None:
        self.waits.append(False)

    def show(self, text: str) -> None:
        self.text += text

    def reset(self) -> None:
        self.text = ""
        self.resets += 1


def ask(
    server: ModelServer,
    bounds: ProviderBounds | None = None,
    policy: RetryPolicy = ONCE,
    stream: bool = True,
    screen: Screen | None = None,
) -> ModelAnswer:
    async def run() -> ModelAnswer:
        settings = ServerSettings("local", server.base_url, "m", stream=stream)
        provider = Served(CHAT, settings, "", policy, bounds)
        try:
            return await provider.ask(QUESTION, screen or Screen())
        finally:
            await provider.close()

    return asyncio.run(run())


def refusal(
    directory: Path, answer: dict[str, Any], bounds: ProviderBounds | None = None, stream: bool = True
) -> str:
    with (
        model_server(directory, {"answers": [answer], "after": "last"}) as server,
        pytest.raises(ProviderError) as caught,
    ):
        ask(server, bounds, stream=stream)
    text = str(caught.value)
    assert len(text) < 1000
    return text


@pytest.mark.parametrize(
    ("answer", "begun"),
    [
        ({"endless": "text"}, True),
        ({"text": "one two three four", "cut_after": 3}, True),
        ({"endless": "silence"}, True),
        ({"raw": "not found", "content_type": "application/json"}, True),
        ({"status": 302, "location": "http://127.0.0.1:1/"}, False),
        ({"status": 500, "error": "out of order"}, False),
        ({"raw": 'data: {"error": {"message": "out of memory"}}\n\n'}, False),
    ],
)
def test_a_failure_says_whether_the_server_may_have_worked_at_an_answer(
    tmp_path: Path, answer: dict[str, Any], begun: bool
) -> None:
    """Such an answer may have been paid for: all that it did not refuse, whether or not a word of it came."""
    bounds = replace(SMALL, idle_s=0.3)
    with (
        model_server(tmp_path, {"answers": [answer], "after": "last"}) as server,
        pytest.raises(ProviderError) as caught,
    ):
        ask(server, bounds)
    assert caught.value.begun is begun


def test_a_server_that_takes_no_call_is_paid_nothing(tmp_path: Path) -> None:
    with model_server(tmp_path, {"answers": [{"text": "hi"}]}) as server:
        pass
    with pytest.raises(ProviderError) as caught:
        ask(server, SMALL)
    assert not caught.value.begun


@pytest.mark.parametrize("stream", [True, False])
def test_ten_megabytes_are_refused(tmp_path: Path, stream: bool) -> None:
    assert "more than" in refusal(tmp_path, {"big_bytes": 10_000_000}, stream=stream)


@pytest.mark.parametrize("stream", [True, False])
def test_an_answer_just_over_the_bound_is_refused(tmp_path: Path, stream: bool) -> None:
    assert "larger than 2000 bytes" in refusal(tmp_path, {"big_bytes": 2500}, SMALL, stream)


@pytest.mark.parametrize(
    ("what", "words"),
    [("text", "larger than 2000"), ("comments", "more than 9000"), ("line", "one event of more than 4000")],
)
def test_a_stream_without_end_is_ended_by_its_size(tmp_path: Path, what: str, words: str) -> None:
    bounds = replace(SMALL, wire_bytes=9000) if what == "comments" else SMALL
    assert words in refusal(tmp_path, {"endless": what}, bounds)


def test_a_stream_without_end_is_ended_by_its_time(tmp_path: Path) -> None:
    assert "within 1 s" in refusal(tmp_path, {"endless": "comments"}, SOON_OVER)


def test_a_silent_server_is_not_waited_for(tmp_path: Path) -> None:
    assert "silent for 0.3 s" in refusal(tmp_path, {"endless": "silence"}, SOON_SILENT)


def test_garbage_instead_of_events_is_an_incomplete_stream(tmp_path: Path) -> None:
    assert "cut the stream" in refusal(tmp_path, {"raw": "]]>\0<html>\n\nfoo: bar\n\n"})


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"raw": "data: {not json}\n\n"}, "not JSON"),
        ({"raw": "data: [1, 2]\n\n"}, "a JSON list, not an object"),
        ({"raw": 'data: {"choices": [7]}\n\n'}, "choice that is not an object"),
        ({"raw": 'data: {"choices": [{"delta": "x"}]}\n\n'}, "message that is not an object"),
        ({"raw_hex": b'data: {"choices": "\xff\xfe"}\n\n'.hex()}, "not UTF-8"),
        ({"raw": 'data: {"error": {"message": "out of memory"}}\n\n'}, "out of memory"),
        ({"raw": "<html>Log in</html>", "content_type": "text/html"}, "not JSON"),
        ({"raw": "{}", "content_type": "application/json"}, "no choices"),
        ({"raw": "\ufeff{", "content_type": "application/json"}, "not JSON"),
    ],
)
def test_an_answer_that_is_none_is_named(tmp_path: Path, answer: dict[str, Any], words: str) -> None:
    assert words in refusal(tmp_path, answer)


def test_a_compressed_body_is_refused_before_it_unpacks(tmp_path: Path) -> None:
    bomb = gzip.compress(b"x" * 10_000_000)
    answer = {"raw_hex": bomb.hex(), "headers": {"Content-Encoding": "gzip"}}
    assert "encoded as gzip" in refusal(tmp_path, answer)


def test_an_error_body_of_megabytes_is_not_read(tmp_path: Path) -> None:
    assert "answered 400: (no readable explanation)" in refusal(
        tmp_path, {"status": 400, "error": "x" * 3_000_000}
    )


def test_a_lasting_error_is_not_asked_again(tmp_path: Path) -> None:
    with model_server(tmp_path, {"answers": [{"status": 400, "error": "no such model"}]}) as server:
        with pytest.raises(ProviderError, match="answered 400: no such model"):
            ask(server, policy=QUICK)
        assert len(server.requests()) == 1


def test_a_server_that_wants_a_long_pause_is_not_waited_for(tmp_path: Path) -> None:
    with model_server(tmp_path, {"answers": [{"status": 429, "retry_after": 3600}]}) as server:
        with pytest.raises(ProviderError, match="answered 429"):
            ask(server, policy=QUICK)
        assert len(server.requests()) == 1


@pytest.mark.parametrize("stream", [True, False])
def test_a_connection_that_breaks_before_anything_was_shown_is_tried_again(
    tmp_path: Path, stream: bool
) -> None:
    cut = {"text": "gone", "cut_after": 0}
    with model_server(tmp_path, {"answers": [{"text": "here", "faults": [cut, cut]}]}) as server:
        screen = Screen()
        assert ask(server, policy=QUICK, stream=stream, screen=screen).text == "here"
        assert (screen.text, screen.resets) == ("here", 0)


def test_a_stream_that_ends_in_good_order_but_too_early_is_tried_again(tmp_path: Path) -> None:
    early = {"raw": 'data: {"choices": [{"delta": {"content": "half"}}]}\n\n'}
    with model_server(tmp_path, {"answers": [{"text": "whole", "faults": [early]}]}) as server:
        screen = Screen()
        assert ask(server, policy=QUICK, screen=screen).text == screen.text == "whole"
        assert screen.resets == 1


def test_a_server_that_is_gone_is_tried_as_often_as_allowed(tmp_path: Path) -> None:
    with model_server(tmp_path, {"answers": []}) as server:
        server.kill()
        with pytest.raises(ProviderError, match=r"cannot connect to local .*tried 3 times"):
            ask(server, policy=QUICK)


def test_a_stream_may_end_without_its_end_marker_once_the_answer_is_complete(tmp_path: Path) -> None:
    chunk = {"choices": [{"delta": {"content": "whole"}, "finish_reason": "stop"}]}
    with model_server(tmp_path, {"answers": [{"raw": f"data: {json.dumps(chunk)}\n\n"}]}) as server:
        assert ask(server).text == "whole"


def test_a_server_that_does_not_stream_though_asked_to_is_understood(tmp_path: Path) -> None:
    whole = {"choices": [{"message": {"content": "at once"}, "finish_reason": "stop"}]}
    answer = {"raw": json.dumps(whole), "content_type": "application/json"}
    with model_server(tmp_path, {"answers": [answer]}) as server:
        screen = Screen()
        assert ask(server, screen=screen).text == screen.text == "at once"


def test_an_empty_answer_is_an_answer(tmp_path: Path) -> None:
    with model_server(tmp_path, {"answers": [{"text": ""}]}) as server:
        assert ask(server) == ModelAnswer("ok", "", (), 10, 0, stop_reason="stop")


@pytest.mark.parametrize("stream", [True, False])
def test_what_a_server_had_kept_of_a_question_is_counted(tmp_path: Path, stream: bool) -> None:
    with model_server(tmp_path, {"answers": [{"text": "a b", "cached_tokens": 6}]}) as server:
        assert ask(server, stream=stream) == ModelAnswer("ok", "a b", (), 10, 2, 6, stop_reason="stop")


def test_no_more_questions_at_once_than_allowed(tmp_path: Path) -> None:
    async def run(server: ModelServer) -> None:
        provider = Served(
            CHAT, ServerSettings("local", server.base_url, "m"), "", ONCE, ProviderBounds(parallel=2)
        )
        endless = [asyncio.ensure_future(provider.ask(QUESTION, Screen())) for _ in range(2)]
        screen = Screen()
        third = asyncio.ensure_future(provider.ask(QUESTION, screen))
        while len(await asyncio.to_thread(server.requests)) < 2:
            pass
        assert not third.done() and len(server.requests()) == 2
        assert screen.waits == [True]
        for task in endless:
            task.cancel()
        assert (await asyncio.wait_for(third, HANG_S)).text == "my turn"
        assert screen.waits == [True, False]
        await asyncio.wait(endless)
        await provider.close()

    script = {"answers": [{"endless": "comments"}, {"endless": "comments"}, {"text": "my turn"}]}
    with model_server(tmp_path, script) as server:
        asyncio.run(run(server))


def test_without_a_model_the_question_is_not_sent(tmp_path: Path) -> None:
    provider = Served(CHAT, ServerSettings("local", "http://127.0.0.1:9/v1"), "")
    with pytest.raises(ProviderError, match=r"providers\.local\.model"):
        asyncio.run(provider.ask(QUESTION, Screen()))


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("ftp://host/v1", "must be http"),
        ("http://", "must be http"),
        ("http://u:p@host/v1", "no user or password"),
        ("http://host/v1?key=1", "no ? or #"),
        ("http://host:port/v1", "not a URL"),
        ("http://[::1/v1", "not a URL"),
    ],
)
def test_addresses_that_cannot_work_are_named(url: str, words: str) -> None:
    assert words in "; ".join(ServerSettings("p", url).check())


def test_a_good_address_has_no_fault() -> None:
    assert ServerSettings("p", "https://api.example.com:8443/v1/").check() == []


@pytest.mark.parametrize("key", ["", "  ", "sk-1\nX-Injected: 1", "sk-\x00", "sk-é"])
def test_a_key_that_cannot_be_sent_is_refused_unseen(key: str) -> None:
    with pytest.raises(ConfigurationError, match="MY_KEY") as caught:
        check_key("p", "MY_KEY", key)
    assert not key.strip() or key.strip() not in str(caught.value)


def test_blanks_around_a_key_do_not_count() -> None:
    assert check_key("p", "MY_KEY", " sk-1\n") == "sk-1"

"""An agent beside a server that others have written: ``transformers serve`` with a tiny model of random weights.

Only where ``TRANSFORMERS_PYTHON`` names a Python interpreter that has ``transformers[serving]`` and ``torch``, which
are no dependencies of the project (docs/providers.md).
"""

from __future__ import annotations

import os
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.conftest import NodeMaker
from tests.integration.live_node import WAIT_S, LiveNode, until
from tests.places import ROOT

PYTHON = os.environ.get("TRANSFORMERS_PYTHON", "")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not PYTHON, reason="TRANSFORMERS_PYTHON names no interpreter with transformers"),
]
SHORT, ENDLESS = 12, 60_000


def _answers(base_url: str) -> bool:
    try:
        with urllib.request.urlopen(base_url + "/models", timeout=WAIT_S) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, ConnectionError):
        return False


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """The address and the name of the model."""
    place = tmp_path_factory.mktemp("tiny")
    model = place / "model"
    quiet = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(place / "home")}
    maker = ROOT / "tests" / "servers" / "tiny_model.py"
    subprocess.run([PYTHON, str(maker), str(model), str(ROOT / "docs")], check=True, env=quiet)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [
        str(Path(PYTHON).with_name("transformers")),
        "serve",
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
    ]
    with open(place / "server.log", "wb") as log:
        server = subprocess.Popen(
            [*command, "--device", "cpu", str(model)], env=quiet, stdout=log, stderr=log
        )
    try:
        base_url = f"http://127.0.0.1:{port}/v1"
        until(lambda: _answers(base_url), "the server answers")
        yield base_url, str(model)
    finally:
        server.terminate()
        server.wait(WAIT_S)


@pytest.fixture(scope="module")
def node(new_node: NodeMaker, served: tuple[str, str]) -> Iterator[LiveNode]:
    base_url, model = served
    provider = f'[providers.tiny]\nkind = "openai"\nbase_url = "{base_url}"\nmodel = "{model}"\n'
    node = new_node(extra=provider)
    node.up()
    yield node
    node.verify()
    node.down()


def _agent(node: LiveNode, name: str, max_tokens: int) -> None:
    config = {"max_tokens": max_tokens}
    node.api.spawn(name, provider="tiny", tools=(), config=config)


def test_an_answer_streams_is_counted_and_cut_at_its_limit(node: LiveNode) -> None:
    _agent(node, "short", SHORT)
    events = list(node.api.watch("short", "Say something."))
    words = [event["text"] for event in events if event["event"] == "delta"]
    assert len(words) > 1 and events[-1]["status"] == "ok"
    assert "".join(words).strip() in events[-1]["reply"]
    [asked] = node.entries("model.answered")
    assert (asked["output_tokens"], asked["status"]) == (SHORT, "ok")
    assert asked["input_tokens"] > 0


def test_an_answer_that_is_cancelled_in_the_middle_leaves_the_server_and_the_agent_of_use(
    node: LiveNode,
) -> None:
    _agent(node, "endless", ENDLESS)
    events = node.api.watch("endless", "Go on for ever.")
    next(event for event in events if event["event"] == "delta")
    node.api.cancel("endless")
    assert [*events][-1]["status"] == "cancelled"
    _agent(node, "after", SHORT)
    assert node.api.send("after", "And now?", wait_s=WAIT_S)["status"] == "ok"

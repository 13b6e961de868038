"""Where a provider's key is: on its way to the server, and nowhere that a worker or a cell can look."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.integration.live_node import FILE_TOOLS, KEY, KEY_VARIABLE, WAIT_S, LiveNode, alive, until
from tests.servers.certificates import certificates
from tests.servers.processes import ModelServer, model_server

NOTHING: dict[str, list[str]] = {"found": [], "opened": []}


def look(node: LiveNode, name: str) -> None:
    """A tool and a behaviour look for it in all of /proc."""
    closed = [node.os_pid, node.nursery(), node.helper("gateway")["os_pid"]]
    node.api.spawn(f"{name}-planner", behaviour="planner", tools=["prowls"])
    [result] = node.plan(f"{name}-planner", ("prowls", {"yek": KEY[::-1], "closed": closed}))
    assert json.loads(result["text"]) == NOTHING
    node.api.spawn(f"{name}-cell", behaviour="prowler")
    answer = node.api.send(f"{name}-cell", json.dumps([KEY[::-1], closed]), wait_s=WAIT_S)
    assert json.loads(answer["reply"]) == NOTHING


def test_the_key_reaches_the_server_and_no_worker_or_cell_finds_it(
    node: LiveNode, models: ModelServer
) -> None:
    assert node.talk("keyed", "five-calls", tools=FILE_TOOLS)["status"] == "ok"
    assert models.requests()[-1]["headers"]["authorization"] == f"Bearer {KEY}"
    look(node, "local-keys")


def test_a_gateway_that_is_started_again_has_the_key_again(node: LiveNode, models: ModelServer) -> None:
    gateway = node.helper("gateway")["os_pid"]
    os.kill(gateway, signal.SIGKILL)
    until(lambda: not alive(gateway), "the gateway is gone")
    assert node.talk("keyed-again", "five-calls", tools=FILE_TOOLS)["status"] == "ok"
    assert models.requests()[-1]["headers"]["authorization"] == f"Bearer {KEY}"


def siege(
    node: LiveNode, models: ModelServer, talker: str, besieged: Callable[[int, str], dict[str, list[str]]]
) -> None:
    """Hostile code ends the gateway and lies in wait for the next one, until that has made a call with the key."""
    before = node.helper("gateway")["os_pid"]
    stop = node.place / f"{talker}-is-over"
    with ThreadPoolExecutor(1) as other:
        found: Future[dict[str, list[str]]] = other.submit(besieged, before, str(stop))
        try:
            until(lambda: not alive(before) or found.done(), "the gateway is killed")
            assert node.talk(talker, "five-calls", tools=FILE_TOOLS)["status"] == "ok"
            after = node.helper("gateway")["os_pid"]
        finally:
            stop.touch()
        opened = found.result()
    assert models.requests()[-1]["headers"]["authorization"] == f"Bearer {KEY}"
    assert opened[str(after)] == []


def test_a_tool_that_ends_the_gateway_cannot_look_into_the_next_one(
    node: LiveNode, models: ModelServer
) -> None:
    node.api.spawn("siege", behaviour="planner", tools=["besieges"])

    def besieged(victim: int, stop: str) -> dict[str, list[str]]:
        [result] = node.plan("siege", ("besieges", {"victim": victim, "stop": stop}))
        opened: dict[str, list[str]] = json.loads(result["text"])
        return opened

    for number in range(3):
        siege(node, models, f"besieged-{number}", besieged)


def test_nor_can_a_cell(node: LiveNode, models: ModelServer) -> None:
    node.api.spawn("besieger", behaviour="besieger")

    def besieged(victim: int, stop: str) -> dict[str, list[str]]:
        answer = node.api.send("besieger", json.dumps([victim, stop]), wait_s=WAIT_S)
        opened: dict[str, list[str]] = json.loads(answer["reply"])
        return opened

    siege(node, models, "besieged-by-a-cell", besieged)


@pytest.mark.ray
def test_under_ray_no_worker_or_cell_finds_it_either(ray_node: LiveNode) -> None:
    look(ray_node, "ray-keys")


def test_no_process_of_a_node_has_it_in_its_environment(node: LiveNode) -> None:
    """As seen by root, who sees everything."""
    session = [node.os_pid, *(int(line.split()[0]) for line in node.left())]
    assert len(session) > 2
    for pid in session:
        with contextlib.suppress(OSError):
            environment = Path(f"/proc/{pid}/environ").read_bytes()
            assert KEY.encode() not in environment
            assert KEY_VARIABLE.encode() not in environment


def test_the_gateway_believes_the_authority_that_its_node_s_environment_names(
    fresh: LiveNode, tmp_path: Path
) -> None:
    tls = certificates(tmp_path)
    with model_server(tmp_path, {"answers": [{"text": "safe and sound"}]}, tls) as server:
        fresh.configuration += f'\n[providers.own]\nkind = "openai"\nbase_url = "{server.base_url}"\n'
        fresh.configuration += f'api_key_env = "{KEY_VARIABLE}"\n'
        fresh.environment["SSL_CERT_FILE"] = str(tls.authority)
        fresh.up()
        answer = fresh.talk("sealed", "m", provider="own")
        assert (answer["status"], answer["reply"]) == ("ok", "safe and sound")
        assert server.requests()[0]["headers"]["authorization"] == f"Bearer {KEY}"


def test_providers_are_there_by_the_variables_of_the_environment_and_a_key_in_a_file_is_changed_without_a_restart(
    fresh: LiveNode, tmp_path: Path
) -> None:
    file = tmp_path / "key"
    file.write_text(KEY)
    file.chmod(0o600)
    with model_server(tmp_path, {"answers": [{"text": "hello"}], "after": "last"}) as server:
        root = server.base_url.removesuffix("/v1")
        keys = {"OPENAI_API_KEY": f"{KEY}-o", "ANTHROPIC_API_KEY": f"{KEY}-a"}
        fresh.environment |= keys | {"OPENAI_BASE_URL": server.base_url, "ANTHROPIC_BASE_URL": root}
        fresh.environment["OLLAMA_HOST"] = root.removeprefix("http://")
        fresh.configuration += '\n[providers.filed]\nkind = "openai_responses"\n'
        fresh.configuration += f'base_url = "{server.base_url}"\nmodel = "m"\napi_key_file = "{file}"\n'
        fresh.up()
        for provider in ("openai", "anthropic", "ollama", "filed"):
            answer = fresh.talk(f"by-{provider}", "", provider=provider)
            assert (answer["status"], answer["reply"]) == ("ok", "hello")
        asked = {each["path"]: each for each in server.requests()}
        assert [asked[path]["body"]["model"] for path in ("/v1/messages", "/api/chat")] == [
            "claude-sonnet-4-5",
            "llama3.2",
        ]
        assert asked["/v1/chat/completions"]["headers"]["authorization"] == f"Bearer {KEY}-o"
        assert asked["/v1/messages"]["headers"]["x-api-key"] == f"{KEY}-a"
        assert "authorization" not in asked["/api/chat"]["headers"]
        assert asked["/v1/responses"]["headers"]["authorization"] == f"Bearer {KEY}"
        for pid in (fresh.os_pid, *(int(line.split()[0]) for line in fresh.left())):
            with contextlib.suppress(OSError):
                assert KEY.encode() not in Path(f"/proc/{pid}/environ").read_bytes()
        file.write_text(f"{KEY}-new")
        gateway = fresh.helper("gateway")["os_pid"]
        os.kill(gateway, signal.SIGKILL)
        until(lambda: not alive(gateway), "the gateway is gone")
        assert fresh.talk("by-filed-again", "", provider="filed")["status"] == "ok"
        assert server.requests()[-1]["headers"]["authorization"] == f"Bearer {KEY}-new"

"""What bears the node's mark and belongs to nobody is ended; what is a worker's, or another node's, is left alone."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from kernel.helper.os_processes import Mark, run_mark
from kernel.helper.os_session import mark_of, read_boot
from tests.integration.live_node import WAIT_S, LiveNode, alive, until

EXTRA = "[node]\nreconcile_s = 0.2\n"


@contextmanager
def asleep(mark: Mark) -> Iterator[subprocess.Popen[bytes]]:
    """A process that bears a session's mark, and was started by nothing of that."""
    sleeper = subprocess.Popen(["sleep", "3600"])
    mark.put_on(sleeper.pid)  # its environment is closed to a node without the rights of root
    try:
        yield sleeper
    finally:
        sleeper.kill()
        sleeper.wait()


def test_orphans_are_found_and_ended_and_all_others_left_alone(node: LiveNode) -> None:
    record = read_boot(node.data)
    assert record is not None
    node.api.spawn("planner", behaviour="planner", tools=["daemonises"])
    [result] = node.plan("planner", ("daemonises", {}))
    of_a_tool = int(result["text"])  # its worker lives, so it is the worker's
    with asleep(mark_of(record)) as orphan, asleep(run_mark("another node's")) as stranger:
        assert orphan.wait(WAIT_S) == -9
        node.api.spawn("daemoniser", behaviour="daemoniser")
        of_a_cell = int(node.api.send("daemoniser", "go", wait_s=WAIT_S)["reply"])
        until(lambda: not alive(of_a_cell), "what a cell cut loose is ended")
        assert stranger.poll() is None
    assert alive(of_a_tool)
    repaired = node.entries("node.reconciled")
    assert {(entry["what"], entry["of"]) for entry in repaired} == {
        ("orphan process", str(orphan.pid)),
        ("orphan process", str(of_a_cell)),
    }
    assert node.api.check() == {"differences": []}
    assert "agreement" in node.cli("doctor").stdout

"""A Ray cluster of three raylets on this machine, in a session of its own, for a test: ``raylets.py DIRECTORY``.

Prints one JSON line, {address, raylets: [pid, ...], head first}, and waits for the end of its stdin.
"""

from __future__ import annotations

import json
import os
import secrets
import sys
from pathlib import Path

STORE_BYTES = 80 * 2**20


def main(place: Path) -> None:
    token = place / "token"
    token.touch(mode=0o600)
    token.write_text(secrets.token_hex(32))
    (place / "ray").mkdir()  # where Ray puts its files below RAY_TMPDIR
    os.environ |= {
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_USE_UVLOOP": "0",
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(token),
        "RAY_TMPDIR": str(place),
        "RAY_health_check_period_ms": "1000",  # so that Ray itself misses a killed raylet within seconds
        "RAY_health_check_timeout_ms": "1000",
        "RAY_health_check_failure_threshold": "2",
    }
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    from ray.cluster_utils import Cluster

    common = {"num_cpus": 1, "object_store_memory": STORE_BYTES, "node_ip_address": "127.0.0.1"}
    cluster = Cluster(initialize_head=True, head_node_args={**common, "include_dashboard": False})
    nodes = [cluster.head_node, *(cluster.add_node(wait=False, **common) for _ in range(2))]
    cluster.wait_for_nodes()
    raylets = [node.all_processes["raylet"][0].process.pid for node in nodes]
    print(json.dumps({"address": cluster.address, "raylets": raylets}), file=out, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(Path(sys.argv[1]))

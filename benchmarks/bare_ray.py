"""``python -P benchmarks/bare_ray.py RUNTIME``: Ray by itself, set up as the placer sets it up.

Prints ``initialised`` when ``ray.init`` has returned, then how long each of a few actors took from the order
to its first answer, then how long each of many calls of one took.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from pathlib import Path
from typing import Any

from kernel.cells.engines.placer import prepare

ACTORS = 5
CALLS = 500
OBJECT_STORE_BYTES = 80 * 2**20


class Bare:
    def answer(self) -> int:
        return 1


def main(runtime: Path) -> None:
    prepare(runtime)
    import ray

    ray.init(
        num_cpus=os.cpu_count(),
        include_dashboard=False,
        object_store_memory=OBJECT_STORE_BYTES,
        log_to_driver=False,
        logging_level=logging.ERROR,
        _temp_dir=str(runtime / "ray"),
    )
    print("initialised", flush=True)
    actor_class: Any = ray.remote(num_cpus=0, max_restarts=0)(Bare)
    took = []
    for _ in range(ACTORS):
        started = time.perf_counter()
        actor = actor_class.remote()
        ray.get(actor.answer.remote())
        took.append(time.perf_counter() - started)
        ray.kill(actor)
    print(f"actors {json.dumps(took)}", flush=True)
    print(f"calls {json.dumps(_calls(actor_class))}", flush=True)
    ray.shutdown()


def _calls(actor_class: Any) -> list[float]:
    import ray

    actor = actor_class.remote()
    ray.get(actor.answer.remote())
    took = []
    for _ in range(CALLS):
        started = time.perf_counter()
        ray.get(actor.answer.remote())
        took.append(time.perf_counter() - started)
    return took


if __name__ == "__main__":
    main(Path(sys.argv[1]))

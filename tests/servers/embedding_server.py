"""A scripted embeddings server with an OpenAI-compatible face, as a process of its own on loopback.

``python tests/servers/embedding_server.py --port 0`` prints its port as the first line, then serves ``POST
/v1/embeddings`` until it is killed; with ``--exit-with-stdin`` also until its standard input ends. Standard library
only.

It knows meaning as far as a list of synonyms goes: each group is one direction of 64, every other word a direction by
its hash, weighted less. The ``model`` that is asked for chooses what it does: ``synonyms`` answers; ``nan``,
``ragged``, ``empty``, ``huge`` answer with vectors that are none; ``wide`` with 96 dimensions; ``slow`` not before a
minute; ``changing`` with 64 dimensions, and with 96 for texts that hold the word ``upgraded``. ``GET /requests`` gives
how many texts each model was asked for.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
import threading
import time
import zlib
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

DIMENSIONS, WIDE = 64, 96
SYNONYMS = (
    ("car", "automobile", "vehicle", "motorcar"),
    ("doctor", "physician", "medic"),
    ("buy", "bought", "purchase", "purchased", "acquired"),
    ("house", "home", "dwelling", "residence"),
    ("begin", "begins", "start", "starts", "commences"),
    ("big", "large", "huge", "enormous"),
    ("ship", "vessel", "boat"),
    ("teacher", "instructor", "tutor"),
    ("fix", "fixed", "repaired", "mended"),
    ("meeting", "gathering", "assembly", "conference"),
    ("money", "cash", "funds"),
    ("quick", "fast", "rapid", "speedy"),
)
GROUP = {word: number for number, words in enumerate(SYNONYMS) for word in words}
IGNORED = frozenset(
    re.findall("[a-z]+", "a an the of to in on at and is was who what when where did do with his her")
)


def embed(text: str, dimensions: int = DIMENSIONS) -> list[float]:
    """What the text means, as far as this server knows."""
    vector = [0.0] * dimensions
    for word in re.findall(r"\w+", text.lower()):
        if word in GROUP:
            vector[GROUP[word]] += 1.0
        elif word not in IGNORED:
            vector[len(SYNONYMS) + zlib.crc32(word.encode()) % (dimensions - len(SYNONYMS))] += 0.3
    return vector


def answer(model: str, texts: list[str]) -> list[Any]:
    """The vectors of one request."""
    match model:
        case "nan":
            return [[math.nan] * DIMENSIONS for _ in texts]
        case "huge":
            return [[1e300] * DIMENSIONS for _ in texts]
        case "ragged":
            return [[1.0] * (DIMENSIONS + number) for number in range(len(texts) + 1)][1:]
        case "empty":
            return []
        case "wide":
            return [embed(text, WIDE) for text in texts]
        case "changing":
            return [embed(text, WIDE if "upgraded" in text else DIMENSIONS) for text in texts]
        case _:
            return [embed(text) for text in texts]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    asked: ClassVar[Counter[str]] = Counter()

    def log_message(self, format: str, *args: Any) -> None:
        return

    def do_GET(self) -> None:
        self._reply(200, self.asked)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        model, texts = body["model"], body["input"]
        self.asked[model] += len(texts)
        if self.path != "/v1/embeddings":
            self._reply(404, {"error": {"message": f"no {self.path} here"}})
            return
        if model == "slow":
            time.sleep(60)
        items = [{"index": place, "embedding": row} for place, row in enumerate(answer(model, texts))]
        self._reply(200, {"object": "list", "model": model, "data": items[::-1]})

    def _reply(self, status: int, value: Any) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--exit-with-stdin", action="store_true")
    options = parser.parse_args()
    server = ThreadingHTTPServer(("127.0.0.1", options.port), Handler)
    server.daemon_threads = True
    print(server.server_address[1], flush=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    if options.exit_with_stdin:
        sys.stdin.read()
    else:
        threading.Event().wait()


if __name__ == "__main__":
    main()

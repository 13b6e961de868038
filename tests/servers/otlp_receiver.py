"""A receiver of traces, as a process of its own on loopback: OTLP over HTTP, as its protocol buffers have it.

``python -m tests.servers.otlp_receiver FILE MODE`` prints its port, then serves until its standard input ends. Each
span that comes becomes a line of FILE, as JSON. MODE: ``take``; ``hang`` (no answer), ``refuse`` (500), ``redirect``
(to /elsewhere), ``close`` (without a word).
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

FILE, MODE = sys.argv[1], sys.argv[2]


def _value(value: object) -> object:
    name = value.WhichOneof("value")  # type: ignore[attr-defined]
    found = getattr(value, name)
    return [_value(each) for each in found.values] if name == "array_value" else found


def _line(span: Span) -> str:
    return json.dumps(
        {
            "name": span.name,
            "trace": span.trace_id.hex(),
            "id": span.span_id.hex(),
            "parent": span.parent_span_id.hex(),
            "links": [link.span_id.hex() for link in span.links],
            "took_ns": span.end_time_unix_nano - span.start_time_unix_nano,
            "error": span.status.message,
            "attributes": {each.key: _value(each.value) for each in span.attributes},
        }
    )


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        with open(FILE, "a", encoding="utf-8") as file:
            if MODE == "take":
                request = ExportTraceServiceRequest()
                request.ParseFromString(body)
                for of in request.resource_spans:
                    for scope in of.scope_spans:
                        file.write("".join(_line(span) + "\n" for span in scope.spans))
            else:
                file.write(json.dumps({"name": MODE, "path": self.path}) + "\n")
        if MODE == "hang":
            time.sleep(3600)
        if MODE == "close":
            self.close_connection = True
            return
        status = {"take": 200, "refuse": 500, "redirect": 307}[MODE]
        self.send_response(status)
        self.send_header("content-length", "0")
        if MODE == "redirect":
            self.send_header("location", "/elsewhere")
        self.end_headers()

    def log_message(self, *args: object) -> None:
        """Its output is the port alone."""


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
sys.stdin.read()
os._exit(0)

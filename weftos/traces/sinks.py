"""Where traces go: a file, or a server that takes OTLP over HTTP."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from kernel.slices.feed.agent_trace import AgentTrace
from weftos.log.log_files import RotatingFile
from weftos.traces.spans import Content, Span, spans_of

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

FILE_BYTES = 16 * 2**20
FILES = 4
TIMEOUT_S = 10.0
MISSING = "OpenTelemetry is not installed: pip install 'weftos[otel]', or set agent.trace.export to file"


class SinkError(Exception):
    """What was given is not where it should be. The words say why."""


class Sink(Protocol):
    """Takes traces. For one thread."""

    def take(self, traces: Sequence[tuple[AgentTrace, Content]]) -> None:
        """Raises SinkError; then maybe some of them are there."""
        ...


class FileSink:
    """One trace a line, as JSON, without what was said; bounded."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        self._file = RotatingFile(path, FILE_BYTES, FILES - 1)

    def take(self, traces: Sequence[tuple[AgentTrace, Content]]) -> None:
        try:
            for trace, _ in traces:
                self._file.write(json.dumps(asdict(trace), ensure_ascii=False).encode() + b"\n")
        except OSError as error:
            raise SinkError(f"{error.strerror or error}") from error


class OtlpSink:
    """Spans to ``endpoint``. Nothing is followed, asked of the environment, or read beyond what a server has to say."""

    def __init__(self, endpoint: str, resource: Mapping[str, str]) -> None:
        try:
            import requests
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.resources import Resource
        except ImportError as error:
            raise SinkError(MISSING) from error
        session = requests.Session()
        session.trust_env = False
        session.max_redirects = 0
        self._said = _LastWord()
        for name in ("opentelemetry.exporter.otlp.proto.http.trace_exporter", "opentelemetry"):
            logging.getLogger(name).addHandler(self._said)
        self._resource = Resource(dict(resource))
        self._exporter = OTLPSpanExporter(endpoint=endpoint, timeout=TIMEOUT_S, headers={}, session=session)

    def take(self, traces: Sequence[tuple[AgentTrace, Content]]) -> None:
        from opentelemetry.sdk.trace.export import SpanExportResult

        spans = [
            _readable(span, self._resource) for trace, content in traces for span in spans_of(trace, content)
        ]
        self._said.words = ""
        if self._exporter.export(spans) is not SpanExportResult.SUCCESS:
            raise SinkError(self._said.words or "the server did not take them")


class _LastWord(logging.Handler):
    """What the exporter has said last: it tells why in its log alone."""

    words = ""

    def emit(self, record: logging.LogRecord) -> None:
        self.words = record.getMessage()[:300]


def _readable(span: Span, resource: Any) -> ReadableSpan:
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope
    from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags

    def context(span_id: str) -> SpanContext:
        flags = TraceFlags(TraceFlags.SAMPLED)
        return SpanContext(int(span.trace_id, 16), int(span_id, 16), is_remote=False, trace_flags=flags)

    return ReadableSpan(
        name=span.name,
        context=context(span.span_id),
        parent=context(span.parent_id) if span.parent_id else None,
        resource=resource,
        attributes=span.attributes,
        links=[Link(context(each)) for each in span.links],
        kind=SpanKind.CLIENT if span.kind == "client" else SpanKind.INTERNAL,
        instrumentation_scope=InstrumentationScope("weftos"),
        status=Status(StatusCode.ERROR, span.error) if span.error else Status(StatusCode.UNSET),
        start_time=span.start_us * 1000,
        end_time=span.end_us * 1000,
    )

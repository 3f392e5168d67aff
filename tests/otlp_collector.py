"""Collector of OpenTelemetry spans, sent by OTLP over HTTP, for tests."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass(frozen=True)
class CollectedSpan:
    """A span that has ended."""

    name: str
    trace: bytes
    id: bytes
    parent: bytes  # empty: the trace begins here
    attributes: dict[str, str | int]
    seconds: tuple[float, float]  # its begin and end, since 1970
    service: str


@dataclass
class Collector:
    """Spans that a running collector has received."""

    url: str
    spans: list[CollectedSpan] = field(default_factory=list)

    def receive(self, body: bytes) -> None:
        """Store the spans of a request."""
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            service = _attributes(resource.resource.attributes)["service.name"]
            for each in (span for scope in resource.scope_spans for span in scope.spans):
                seconds = each.start_time_unix_nano / 1e9, each.end_time_unix_nano / 1e9
                ids = each.trace_id, each.span_id, each.parent_span_id
                attributes = _attributes(each.attributes)
                self.spans.append(CollectedSpan(each.name, *ids, attributes, seconds, service))

    def path(self, span: CollectedSpan) -> str:
        """Return the names of a span and all spans above it, such as run/trial/iteration."""
        above = [each for each in self.spans if each.id == span.parent]
        return f"{self.path(above[0])}/{span.name}" if above else span.name


def _attributes(pairs: Any) -> dict[str, Any]:
    """Return attributes as a dictionary."""
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in pairs}


@contextmanager
def collector() -> Iterator[Collector]:
    """Context manager that runs a collector on a free port of this machine."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            zipped = self.headers.get("Content-Encoding") == "gzip"
            found.receive(gzip.decompress(body) if zipped else body)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *message: object) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found = Collector(f"http://127.0.0.1:{server.server_port}")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield found
    finally:
        server.shutdown()

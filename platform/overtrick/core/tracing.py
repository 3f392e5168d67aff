"""OpenTelemetry spans of a command, and of a job: its submission, run, trials, iterations, shards.

Spans are sent by OTLP over HTTP if OTEL_EXPORTER_OTLP_ENDPOINT or
OTEL_EXPORTER_OTLP_TRACES_ENDPOINT names a collector. Without these variables nothing is recorded.
OTEL_SDK_DISABLED=true and OTEL_TRACES_EXPORTER=none turn it off.

Each process passes a carrier (a W3C trace context) to the processes that work for it; their spans
become children of its current span.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
TRACEPARENT = "TRACEPARENT"  # variable that names the span to which a process belongs
PATIENCE = 5.0  # seconds to wait for the collector
Carrier = Mapping[str, str]

log = logging.getLogger(__name__)
_away = threading.Event()  # the collector did not answer in time: never wait for it again


def is_enabled() -> bool:
    """Return whether the environment names a collector of spans."""
    disabled = os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true"
    disabled = disabled or os.environ.get("OTEL_TRACES_EXPORTER", "").lower() == "none"
    return not disabled and any(os.environ.get(name) for name in ENDPOINTS)


@contextmanager
def span(name: str, parent: Carrier | None = None, **attributes: str | int) -> Iterator[Carrier]:
    """Context manager that records its block as a span; its value is the span's carrier.

    `parent`: the carrier of the span above. None or empty: this thread's current span or, if there
    is none, that of the environment variable TRACEPARENT. `attributes`: values by name; each name
    gets the prefix `overtrick.`. Without a collector the carrier is empty.
    """
    if not is_enabled():
        yield {}
        return
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    context = TraceContextTextMapPropagator().extract(parent or carrier())
    named = {f"overtrick.{key}": value for key, value in attributes.items()}
    tracer = _provider().get_tracer("overtrick")
    with tracer.start_as_current_span(name, context, attributes=named):
        yield carrier()


def carrier() -> Carrier:
    """Return the carrier of this thread's current span, or that of TRACEPARENT if there is none.

    Without both the carrier is empty.
    """
    found: dict[str, str] = {}
    if is_enabled():
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        TraceContextTextMapPropagator().inject(found)
        if not found and (above := os.environ.get(TRACEPARENT)):
            found["traceparent"] = above
    return found


def as_environment(carrier: Carrier) -> dict[str, str]:
    """Return the environment variables by which a new process continues a carrier's span."""
    return {TRACEPARENT: carrier["traceparent"]} if carrier else {}


def flush() -> None:
    """Send all recorded spans now, and wait for the collector for at most PATIENCE seconds.

    After a collector has not answered in time, later calls in this process do nothing.
    """
    if is_enabled() and not _away.is_set():  # OpenTelemetry ignores the timeout of force_flush
        sending = threading.Thread(target=_provider().force_flush, daemon=True)
        sending.start()
        sending.join(PATIENCE)
        if sending.is_alive():
            _away.set()
            where = next(os.environ[name] for name in ENDPOINTS if os.environ.get(name))
            log.warning("%s receives no spans: the trace of this process is incomplete", where)


def export_ray_spans() -> None:
    """Let Ray send the spans of its tasks and actors to the same collector.

    This is a hook for `ray start --tracing-startup-hook=overtrick.core.tracing:export_ray_spans`.
    """
    if is_enabled():
        from opentelemetry import trace

        trace.set_tracer_provider(_provider())


@cache
def _provider() -> Any:
    """Return OpenTelemetry's provider of tracers, which sends spans in batches from a thread."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import SERVICE_NAME, Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    logging.getLogger("opentelemetry").setLevel(logging.ERROR)  # no line for every try
    resource = Resource.create({})
    if str(resource.attributes[SERVICE_NAME]).startswith("unknown_service"):
        resource = resource.merge(Resource({SERVICE_NAME: "overtrick"}))
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    atexit.register(flush)
    return provider

"""OpenTelemetry spans of a job: its submission, its run, and the run's trials, iterations, shards.

Spans are sent by OTLP over HTTP if OTEL_EXPORTER_OTLP_ENDPOINT or
OTEL_EXPORTER_OTLP_TRACES_ENDPOINT names a collector. The other variables of OpenTelemetry's SDK
(headers, timeout, sampler, service name) hold too. Without these variables nothing is recorded.

Each process passes a carrier on to the processes that work for it: a dictionary with the trace
context of W3C, by which their spans become children of its own.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
TRACEPARENT = "TRACEPARENT"  # variable that names the span to which a process belongs
FLUSH_TIMEOUT = 5_000  # milliseconds
Carrier = Mapping[str, str]


def is_enabled() -> bool:
    """Return whether the environment names a collector of spans."""
    disabled = os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true"
    return not disabled and any(os.environ.get(name) for name in ENDPOINTS)


@contextmanager
def span(name: str, parent: Carrier | None = None, **attributes: str | int) -> Iterator[Carrier]:
    """Context manager that records its block as a span; its value is the span's carrier.

    `parent`: the carrier of the span above. None: this thread's current span or, if there is none,
    that of the environment variable TRACEPARENT. `attributes`: of the span, by the end of their
    names, which begin with `overtrick.`. Without a collector the carrier is empty.
    """
    if not is_enabled():
        yield {}
        return
    from opentelemetry import trace
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    propagator = TraceContextTextMapPropagator()
    above = parent
    if above is None and not trace.get_current_span().get_span_context().is_valid:
        above = {"traceparent": os.environ.get(TRACEPARENT, "")}
    context = propagator.extract(above) if above else None
    named = {f"overtrick.{key}": value for key, value in attributes.items()}
    tracer = _provider().get_tracer("overtrick")
    with tracer.start_as_current_span(name, context, attributes=named):
        yield carrier()


def carrier() -> Carrier:
    """Return the carrier of this thread's current span; empty if there is none."""
    found: dict[str, str] = {}
    if is_enabled():
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        TraceContextTextMapPropagator().inject(found)
    return found


def as_environment(carrier: Carrier) -> dict[str, str]:
    """Return the environment variables by which a new process continues a carrier's span."""
    return {TRACEPARENT: carrier["traceparent"]} if carrier else {}


def flush() -> None:
    """Send all recorded spans now; wait for the collector for at most five seconds."""
    if is_enabled():
        _provider().force_flush(FLUSH_TIMEOUT)


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
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    named = {} if os.environ.get("OTEL_SERVICE_NAME") else {"service.name": "overtrick"}
    provider = TracerProvider(resource=Resource.create(named))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider

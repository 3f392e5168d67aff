"""Schema of the events in a run's spool file, one JSON object a line."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field, TypeAdapter

from overtrick.core.json_files import ClosedRecord, OpenRecord

LAST = 2**63 - 1  # MLflow stores times and steps in 64 bits
Count = Annotated[int, Field(ge=0, le=LAST)]


class _Event(ClosedRecord):
    """Schema common to all events: the time in milliseconds since 1970."""

    time: Count


class ParamsEvent(_Event):
    """The settings of the run, by dotted job key."""

    params: dict[str, str]


class MetricsEvent(_Event):
    """The metrics of one iteration, and its speed on the machines at hand."""

    step: Count
    metrics: dict[str, float]
    speed: NotRequired[dict[str, float]]


class ResultEvent(_Event):
    """Final metrics of a run, and the iteration after which they were measured."""

    step: Count
    result: dict[str, float]


class ArtifactEvent(_Event):
    """A file or folder of the run, and the artifact folder in MLflow that receives it."""

    artifact: str
    place: str


class ModelMetadata(OpenRecord):
    """Metadata of a model in MLflow, which needs the version of this package."""

    version: str


class ModelDescription(ClosedRecord):
    """Description of a model for MLflow, as `serving.predictor.mlflow_description` returns it."""

    facts: dict[str, str]
    said: dict[str, str]
    example: dict[str, list[Any]]
    about: ModelMetadata


class Measurement(ClosedRecord):
    """The metrics of one iteration, and the time of their event."""

    time: Count
    metrics: dict[str, float]


class ModelEvent(_Event):
    """The folder of a trained model, the iteration after which it was stored, and its metrics."""

    model: str
    answers: ModelDescription
    step: Count
    name: NotRequired[str]
    measured: NotRequired[Measurement]


class DatasetEvent(_Event):
    """A data set that the run reads: its path, kind, number of rows, and digest."""

    dataset: str
    kind: str
    rows: Count
    digest: str


class TableEvent(_Event):
    """A table of the run: the name of its file in MLflow, and its rows."""

    table: str
    rows: list[dict[str, Any]]


class NoteEvent(_Event):
    """The description on the run's page in MLflow, in Markdown."""

    note: str


class RegisterEvent(_Event):
    """The name under which the model is to be registered."""

    register: str


class StatusEvent(_Event):
    """MLflow's status of a run that has ended."""

    status: Literal["FINISHED", "FAILED", "KILLED"]


Event = (
    ParamsEvent
    | MetricsEvent
    | ResultEvent
    | ArtifactEvent
    | ModelEvent
    | DatasetEvent
    | TableEvent
    | NoteEvent
    | RegisterEvent
    | StatusEvent
)
EVENT: TypeAdapter[Any] = TypeAdapter(Event)

"""Schema of the events in a run's spool file, one JSON object a line."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import ConfigDict, Field, TypeAdapter
from typing_extensions import TypedDict  # pydantic needs this one before Python 3.12

STRICT = ConfigDict(extra="forbid", strict=True)
LAST = 2**63 - 1  # MLflow stores times and steps in 64 bits
Count = Annotated[int, Field(ge=0, le=LAST)]


class _Event(TypedDict):
    """Schema common to all events: the time in milliseconds since 1970."""

    __pydantic_config__ = STRICT  # type: ignore[misc]
    time: Count


class ParamsEvent(_Event):
    """The settings of the run, by dotted job key."""

    params: dict[str, str]


class MetricsEvent(_Event):
    """The metrics of one iteration."""

    step: Count
    metrics: dict[str, float]


class ArtifactEvent(_Event):
    """A file or folder of the run, and the artifact folder in MLflow that receives it."""

    artifact: str
    place: str


class ModelDescription(TypedDict):
    """Description of a model for MLflow, as `serving.predictor.mlflow_description` returns it."""

    __pydantic_config__ = STRICT  # type: ignore[misc]
    facts: dict[str, str]
    said: dict[str, str]
    example: dict[str, list[Any]]
    about: dict[str, Any]


class ModelEvent(_Event):
    """The folder of the trained model, and the iteration after which it was stored."""

    model: str
    answers: ModelDescription
    step: Count


class NoteEvent(_Event):
    """The description on the run's page in MLflow, in Markdown."""

    note: str


class RegisterEvent(_Event):
    """The name under which the model is to be registered."""

    register: str


class StatusEvent(_Event):
    """MLflow's status of a run that has ended."""

    status: str


Event = (
    ParamsEvent
    | MetricsEvent
    | ArtifactEvent
    | ModelEvent
    | NoteEvent
    | RegisterEvent
    | StatusEvent
)
EVENT: TypeAdapter[Any] = TypeAdapter(Event)

"""Loader class of MLflow models that were registered before version 0.2."""

from __future__ import annotations

from overtrick.serving.predictor import Predictor


class Answers(Predictor):
    """The class Predictor under the name it had before version 0.2."""

    @property
    def facts(self) -> tuple[str, ...]:
        """Return the names of the input columns, in order."""
        return self.observation_fields

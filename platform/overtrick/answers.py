"""Loader class of MLflow models that were registered before version 0.2."""

from __future__ import annotations

from overtrick.core import Array
from overtrick.serving.predictor import Predictor


class Answers(Predictor):
    """The class Predictor, under the name that it had before version 0.2."""

    @property
    def facts(self) -> tuple[str, ...]:
        """Return the names of the input columns, in order."""
        return self.observation_fields

    @property
    def said(self) -> tuple[str, ...]:
        """Return the names of the output columns, in order."""
        return self.outputs

    def ask(self, observations: Array) -> Array:
        """Compute the model's outputs for observations (R, K), as `predict` does."""
        return self.predict(observations)

"""Loader class of MLflow models that were registered before version 0.2."""

from __future__ import annotations

from overtrick.core import Array
from overtrick.serving.predictor import Predictor


class Answers(Predictor):
    """The class Predictor, with the names of class and methods that it had before version 0.2.

    The loader that is stored with an MLflow model of that time calls them by these names.
    """

    @property
    def facts(self) -> tuple[str, ...]:
        """Return the names of the model's input columns, now called `observation_fields`."""
        return self.observation_fields

    @property
    def said(self) -> tuple[str, ...]:
        """Return the names of the model's output columns, now called `outputs`."""
        return self.outputs

    def ask(self, observations: Array) -> Array:
        """Compute the model's outputs for observations (R, K), as `predict` does."""
        return self.predict(observations)

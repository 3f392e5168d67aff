"""Old name of the class Predictor, for MLflow models from before version 0.2 of overtrick."""

from __future__ import annotations

from overtrick.core import Array
from overtrick.serving.predictor import Predictor


class Answers(Predictor):
    """Backward-compatible alias of the class Predictor, with the old names of its methods.

    An MLflow model registered before version 0.2 of overtrick contains code that uses these names.
    """

    @property
    def facts(self) -> tuple[str, ...]:
        """Return `observation_fields`. This is a deprecated alias."""
        return self.observation_fields

    @property
    def said(self) -> tuple[str, ...]:
        """Return `outputs`. This is a deprecated alias."""
        return self.outputs

    def ask(self, observations: Array) -> Array:
        """Return `predict(observations)`. This is a deprecated alias."""
        return self.predict(observations)

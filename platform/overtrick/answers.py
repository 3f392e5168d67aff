"""Kept for MLflow models registered before version 0.2: their loader imports `Answers`."""

from __future__ import annotations

from overtrick.serving.predictor import Predictor


class Answers(Predictor):
    """A predictor under its old name, with the old name of its input columns."""

    @property
    def facts(self) -> tuple[str, ...]:
        """Names of the input columns, in order."""
        return self.observation_fields

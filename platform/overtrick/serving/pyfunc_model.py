"""What MLflow runs to load a model of ours: a question is facts by name, an answer one record.

MLflow keeps a copy of this file beside the weights and runs that copy (models from code). It only
hands the weights, which are data, to the installed package.
"""

from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pandas as pd

from overtrick.serving.predictor import Predictor


class Served(mlflow.pyfunc.PythonModel):
    """A stored model as MLflow calls it."""

    def load_context(self, context: Any) -> None:
        self.answers = Predictor(Path(context.artifacts["model"]))

    # MLflow reads this hint, so it must be there when the class is made
    def predict(
        self, context: Any, model_input: pd.DataFrame, params: Any = None
    ) -> list[dict[str, Any]]:
        """A record of answers by name for each row of a data frame, None where there is none."""
        said = self.answers.ask(model_input[list(self.answers.observation_fields)].to_numpy())
        return [
            {name: None if np.isnan(value) else value for name, value in each}
            for each in (zip(self.answers.said, row, strict=True) for row in said.tolist())
        ]


mlflow.models.set_model(Served())

"""The Python model that MLflow loads and serves: it computes the outputs of each observation.

MLflow stores a copy of this file beside the weights and runs that copy (models from code). The copy
only passes the weights to the installed package.
"""

from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pandas as pd

from overtrick.serving.predictor import Predictor


class ServedModel(mlflow.pyfunc.PythonModel):
    """A stored model as an MLflow Python model, which MLflow can load and serve."""

    def load_context(self, context: Any) -> None:
        """Load the stored model from the artifact `model` that MLflow has unpacked."""
        self.predictor = Predictor(Path(context.artifacts["model"]))

    # MLflow reads the type hints when the class is made
    def predict(
        self, context: Any, model_input: pd.DataFrame, params: Any = None
    ) -> list[dict[str, Any]]:
        """Return for each row (one observation) the model's outputs by name; None replaces NaN."""
        fields = list(self.predictor.observation_fields)
        outputs = self.predictor.predict(model_input[fields].to_numpy())
        return [
            {
                name: None if np.isnan(value) else value
                for name, value in zip(self.predictor.outputs, row, strict=True)
            }
            for row in outputs.tolist()
        ]


mlflow.models.set_model(ServedModel())

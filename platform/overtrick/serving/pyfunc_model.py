"""The Python model that MLflow loads and serves: observations by name in, one record a row out.

MLflow stores a copy of this file beside the weights and runs that copy (models from code). The
copy only passes the weights, which are data, to the installed package.
"""

from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pandas as pd

from overtrick.serving.predictor import Predictor


class ServedModel(mlflow.pyfunc.PythonModel):
    """A stored model behind MLflow's interface."""

    def load_context(self, context: Any) -> None:
        """Load the model from the artifacts that MLflow has unpacked."""
        self.predictor = Predictor(Path(context.artifacts["model"]))

    # MLflow reads the type hints when the class is made
    def predict(
        self, context: Any, model_input: pd.DataFrame, params: Any = None
    ) -> list[dict[str, Any]]:
        """Return one record of outputs by name for each row; None stands for NaN."""
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

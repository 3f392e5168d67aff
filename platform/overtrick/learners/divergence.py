"""Detection of a training that diverges."""

from __future__ import annotations

import numpy as np

from overtrick.core import RunError


def check_loss(loss: float, where: str) -> float:
    """Return `loss` unchanged; raise RunError if it is not finite.

    `where`: time or network of the loss, for the error message, such as "in iteration 3".
    """
    if not np.isfinite(loss):
        raise RunError(
            f"the loss is {loss} {where}: the last checkpoint is still valid; "
            "try a smaller learning rate"
        )
    return loss

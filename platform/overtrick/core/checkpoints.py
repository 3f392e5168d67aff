"""Save and restore the state of objects as named arrays, with a name prefix for each sub-object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Protocol

import numpy as np

from overtrick.core.batches import Array
from overtrick.core.errors import RunError, UserError


class Checkpointed:
    """Base class of objects whose state is saved in a checkpoint as named arrays.

    `saved`: names of the attributes that belong to the state; each is a number, or an array whose
    shape never changes.
    """

    saved: ClassVar[tuple[str, ...]] = ()

    def parts(self) -> Mapping[str, Any]:
        """Return the sub-objects whose state is saved too, by the prefix of their array names."""
        return {}

    def state(self) -> dict[str, Array]:
        """Return the state of this object and of its sub-objects as named arrays, for `load`."""
        state = {name: np.array(getattr(self, name)) for name in self.saved}
        for name, part in self.parts().items():
            state |= prefixed(name, part.state())
        return state

    def load(self, state: Mapping[str, Array]) -> None:
        """Restore this object and its sub-objects from arrays that the method `state` returned."""
        own = {name: np.asarray(getattr(self, name)) for name in self.saved}
        check_shapes({name: state[name] for name in self.saved}, own)
        for name in self.saved:
            setattr(self, name, state[name].copy() if state[name].ndim else state[name].item())
        for name, part in self.parts().items():
            part.load(unprefixed(name, state))


class RestorableTrainer(Protocol):
    """A trainer whose state can be restored."""

    def load(self, state: Mapping[str, Array]) -> None:
        """Restore the arrays of a checkpoint."""


def load_state(trainer: RestorableTrainer, state: Mapping[str, Array]) -> None:
    """Restore a trainer from the state in a checkpoint.

    Raises UserError if the state is not one of this trainer, because its job file or its checkpoint
    has been changed. Raises RunError if a process of the trainer has died.
    """
    try:
        trainer.load(state)
    except RunError:
        raise
    except (
        ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError,
        ValueError,
    ) as error:  # fmt: skip
        reason = f"{type(error).__name__}: {error}"
        raise UserError(
            f"the checkpoint does not fit the job ({reason}): restore job.json, or train again"
        ) from None


def check_shapes(state: Mapping[str, Array], like: Mapping[str, Array]) -> None:
    """Raise ValueError unless a state has the names and shapes of the arrays in `like`."""
    for name in (*like, *state):
        found, wanted = (each[name].shape if name in each else None for each in (state, like))
        if found != wanted:
            raise ValueError(f"{name} has shape {found}, not {wanted}")


def prefixed(prefix: str, values: Mapping[str, Array]) -> dict[str, Array]:
    """Return the arrays with `PREFIX.` in front of their names."""
    return {f"{prefix}.{name}": value for name, value in values.items()}


def unprefixed(prefix: str, state: Mapping[str, Array]) -> dict[str, Array]:
    """Return the arrays whose names begin with `PREFIX.`, with the prefix removed."""
    start = f"{prefix}."
    return {n.removeprefix(start): v for n, v in state.items() if n.startswith(start)}

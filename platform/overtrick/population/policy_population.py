"""Population of policies that only grows, stored as one batch of arrays."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from overtrick.core import Array


class PolicyPopulation:
    """K policies as one batch of arrays, to which new ones are added.

    It is a plain object, so that a worker pool can hold it in an actor. `members`: arrays
    (K, ...) by name; entry k of all arrays together is policy k.
    """

    def __init__(self, members: Mapping[str, Array]) -> None:
        self.members = dict(members)

    def add(self, policy: Mapping[str, Array]) -> int:
        """Add a policy, given by one array (...) of each name; return the new number of policies.

        Raises ValueError for other names or shapes than those of the population.
        """
        _check_same_kind({name: value[None] for name, value in policy.items()}, self.members)
        self.members = {
            name: np.concatenate([old, policy[name][None]]) for name, old in self.members.items()
        }
        return len(next(iter(self.members.values())))

    def state(self) -> dict[str, Array]:
        """Return all policies: arrays (K, ...) by name."""
        return dict(self.members)

    def load(self, state: Mapping[str, Array]) -> None:
        """Replace all policies by a result of `state()`, which may hold another number of them.

        Raises ValueError for other names or shapes than those of the population.
        """
        _check_same_kind(state, self.members)
        if len({len(value) for value in state.values()}) != 1:
            raise ValueError("the arrays of a population hold different numbers of policies")
        self.members = dict(state)


def _check_same_kind(state: Mapping[str, Array], like: Mapping[str, Array]) -> None:
    """Raise ValueError unless arrays have the same names, and shapes beyond the first axis."""
    shapes, wanted = ({n: v.shape[1:] for n, v in each.items()} for each in (state, like))
    if shapes != wanted:
        raise ValueError(f"policies have shapes {shapes}, not {wanted}")

"""How much an opponent loses at least, in games too large to say it exactly."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from overtrick.core import Redealable
from overtrick.distributed.workers import RngStream, generator
from overtrick.evaluation.reference_opponents import make_opponent, resolve_opponent
from overtrick.games import registry
from overtrick.solvers.lookahead.local_best_response import local_best_response

SAMPLES = {"games": 2_000, "particles": 100, "seed": 0}
"""What is sampled if nothing else is asked for."""


def lower_bound(game: Redealable, against: str, asked: Mapping[str, int]) -> dict[str, Any]:
    """What a local best response wins; the keys of `overtrick best-response --json`.

    asked: of SAMPLES, those that are to be different: games played, an even number; deals that
    are imagined at each decision; the seed of it all. Raises Refused.
    """
    how = {**SAMPLES, **asked}
    opponent = make_opponent(resolve_opponent(against, game), game, None)
    fallbacks = [*registry.fallback_policies(game), opponent]
    rng = generator(how["seed"], RngStream.JUDGE)
    bound = local_best_response(game, opponent, fallbacks, how["games"], rng, how["particles"])
    return {
        "game": game.name,
        "stranger": against,
        "unit": game.unit,
        "kind": "lower bound",
        "values": list(bound.values),
        "mean": bound.mean,
        "standard_errors": list(bound.standard_errors),
        "standard_error": bound.standard_error,
        "interval": list(bound.interval),
        **how,
    }

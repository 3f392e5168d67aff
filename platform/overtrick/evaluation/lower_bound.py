"""Lower bound on a policy's exploitability in games that are too large for a tree."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from overtrick.core import Redealable, UserError, require_action_probabilities
from overtrick.distributed.workers import RngStream, generator
from overtrick.evaluation.reference_opponents import make_opponent, resolve_opponent
from overtrick.games import registry
from overtrick.solvers.lookahead.abstraction_response import abstraction_response_payoff
from overtrick.solvers.lookahead.local_best_response import local_best_response

SAMPLES = {"games": 2_000, "particles": 100, "seed": 0}
"""Default sample sizes of a local best response, and its default seed."""

ABSTRACTION_SAMPLES = {"games": 40_000, "seed": 0}
"""Default sample size of a best response in an abstraction, and its default seed."""


def lower_bound(game: Redealable, against: str, samples: Mapping[str, int]) -> dict[str, Any]:
    """Estimate a lower bound on an opponent's exploitability: the payoff of a response to it.

    The response is the best response in the game's abstraction of hands. A local best response is
    used instead if the game has no abstraction, or if `samples` has `particles`.

    `against`: an opponent by name, run or folder. `samples` may replace default values:

    - `games`: number of games, even.
    - `particles`: deals sampled at each decision, consistent with the observations.
    - `seed`: random seed.

    Returns the JSON object of `overtrick best-response --json`. Raises UserError for an unknown
    opponent or values out of range.
    """
    abstraction = None if "particles" in samples else registry.hand_abstraction(game)
    settings = {**(SAMPLES if abstraction is None else ABSTRACTION_SAMPLES), **samples}
    if settings["games"] < 4 or settings["games"] % 2:
        raise UserError(f"{settings['games']} games: a bound needs an even number, 4 or more")
    opponent = make_opponent(resolve_opponent(against, game), game, None)
    require_action_probabilities(opponent, against)
    rng, games = generator(settings["seed"], RngStream.EVALUATE), settings["games"]
    if abstraction is None:
        fallbacks = [*registry.spec_of(game).fallback_policies(game), opponent]
        bound = local_best_response(game, opponent, fallbacks, games, rng, settings["particles"])
    else:
        bound = abstraction_response_payoff(game, abstraction, opponent, games, rng)
    return {
        "game": game.name,
        "stranger": against,
        "unit": game.unit,
        "kind": "lower bound",
        "response": "local" if abstraction is None else "abstraction",
        "values": list(bound.values),
        "mean": bound.mean,
        "standard_errors": list(bound.standard_errors),
        "standard_error": bound.standard_error,
        "interval": list(bound.interval),
        **settings,
    }

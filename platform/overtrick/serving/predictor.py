"""What a stored model says to somebody who holds no game: facts in, by name; its answer out."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from overtrick.core import Array, Game, Observations, UserError, select_rows
from overtrick.evaluation import bidders
from overtrick.games import observation_checks, registry
from overtrick.games.bridge.auction import network_bidder
from overtrick.games.bridge.auction.observation import OBS_SEAT
from overtrick.games.bridge.auction_rules import CALLS
from overtrick.games.bridge.system import loader
from overtrick.learners.state_keys import unprefixed
from overtrick.policies.forward_pass import LOG_STD, forward, tensors
from overtrick.storage import locate, model_files

PROBABILITIES, MOVES, IMPS = "probabilities", "moves", "imps"
"""What an answer is: how likely each action is; the mean of each number of a move and, as NAME_std,
its standard deviation; the IMPs that are expected of each lawful call, NaN of the others."""

AGAINST = "natural"  # bidding system of a bidder's opponents, as in `overtrick bridge suggest`
Say = Callable[[Observations], Array]  # (R, answers) float64


class Predictor:
    """A model that answers by facts alone. Raises UserError for one that cannot: it has to search,
    or to watch its opponent first, or its game has no facts.

    facts: names and order of the columns of a question, whole numbers unless moves are real
    vectors; said: those of an answer, of the kind that `kind` names.
    """

    def __init__(self, folder: Path) -> None:
        stored = model_files.load(folder)
        options = stored.job.get("game", {}).get("options", {})
        self.game: Any = registry.make(stored.game, **options)
        if not isinstance(self.game, Game):
            raise UserError(
                f"the model in {folder} is of {stored.game}, whose players see no facts"
            )
        self.observation_fields = self.game.observation_fields
        self.kind, self.said, self._say = _speaker(stored, folder, self.game)

    def ask(self, seen: Array) -> Array:
        """(R, answers) float64 for facts (R, K). Raises UserError for facts that nobody sees."""
        return self._say(observation_checks.validated_observations(self.game, seen))

    def example(self) -> Array:
        """(R, K) facts of first turns."""
        deals = self.game.deal(2, np.random.default_rng(0))
        seen: Array = self.game.observe(self.game.start(deals)).observation
        return seen


def mlflow_description(folder: Path) -> dict[str, Any]:
    """What MLflow is to know of the model in a folder, as `track` takes it. Raises UserError."""
    stored, asked = model_files.load(folder), Predictor(folder)
    of_fact = "double" if asked.game.actions is None else "long"
    return {
        "facts": dict.fromkeys(asked.observation_fields, of_fact),
        "said": dict.fromkeys(asked.said, "double"),
        "example": dict(zip(asked.observation_fields, asked.example().T.tolist(), strict=True)),
        "about": {
            "format": model_files.FORMAT,
            "version": version("overtrick"),
            "game": stored.game,
            "trainer": stored.job["trainer"],
            "answers": asked.kind,
            "sha256": locate.digests(folder),
        },
    }


def _speaker(
    stored: model_files.Model, folder: Path, game: Any
) -> tuple[str, tuple[str, ...], Say]:
    """The kind of a model's answers, their names, and what gives them."""
    names = tuple(game.action_names)
    calls, imps = (unprefixed(name, stored.weights) for name in network_bidder.OUTPUT_WIDTHS)
    if calls or imps:
        return PROBABILITIES if calls else IMPS, names, _bidding(stored, folder)
    policy = model_files.policy(folder, game)
    if game.actions is not None:
        return PROBABILITIES, names, policy.probs
    weights = unprefixed("policy", stored.weights)
    deviation = np.exp(weights.pop(LOG_STD).astype(np.float64))
    layers = tensors(weights)

    def moves(observations: Observations) -> Array:
        mean = (
            forward(layers, tensors({"seen": game.features(observations)})["seen"]).double().numpy()
        )
        return np.hstack([mean, np.broadcast_to(deviation, mean.shape)])

    return MOVES, (*names, *(f"{name}_std" for name in names)), moves


def _bidding(stored: model_files.Model, folder: Path) -> Say:
    """Of both networks: the call that the bidder makes. Of one alone, what it says itself."""
    calls, imps = (
        bidders.load_network(stored, name, folder) for name in network_bidder.OUTPUT_WIDTHS
    )
    ours, theirs = loader.load(bidders.job_value(stored, folder, "system")), loader.load(AGAINST)
    bidders.check_system_version(
        bidders.job_value(stored, folder, "system_version"), ours, f"the model in {folder}"
    )

    def at(observations: Observations, pair: tuple[Any, Any]) -> Array:
        assert observations.legal is not None
        if calls is not None:
            bidder = network_bidder.NetworkBidder(*pair, calls, imps)
            return (
                bidder.call_probabilities(observations)
                if imps is None
                else bidder.probs(observations)
            )
        assert imps is not None
        row, made = np.nonzero(observations.legal)
        worth = np.full(observations.legal.shape, np.nan)
        worth[row, made] = network_bidder.expected_imps(
            imps, observations.observation, row, made, *pair
        )
        return worth

    def say(observations: Observations) -> Array:
        found = np.empty((len(observations), len(CALLS)))
        north = observations.observation[:, OBS_SEAT] % 2 == 0
        for rows, pair in ((north, (ours, theirs)), (~north, (theirs, ours))):
            if rows.any():
                found[rows] = at(select_rows(observations, rows), pair)
        return found

    return say

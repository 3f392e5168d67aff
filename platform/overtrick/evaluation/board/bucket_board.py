"""Boards of games that are too large for a tree: they work on an abstraction of hands."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from overtrick.config.job_file import GameChoice
from overtrick.core import BehaviouralPolicy, Enumerable, UserError
from overtrick.evaluation.board import bucket_opponents, opponent_files
from overtrick.evaluation.board.bucket_families import BucketFamilies
from overtrick.evaluation.board.bucket_match import sampled_payoff
from overtrick.evaluation.board.bucket_opponents import BucketOpponent
from overtrick.evaluation.board.bucket_players import oracle_policy
from overtrick.evaluation.board.bucket_setting import BucketSetting
from overtrick.evaluation.board.end_observations import Told
from overtrick.games import registry
from overtrick.learners.supervised.bucket_posterior import BucketPrior
from overtrick.solvers.public_tree import values


def uses_abstraction(choice: GameChoice) -> bool:
    """Return whether the board of a game works on an abstraction of hands.

    It does if the game has an abstraction, and is too large for a tree.
    """
    game = registry.make(choice.name, **choice.options)
    return not isinstance(game, Enumerable) and registry.hand_abstraction(game) is not None


def setting(choice: GameChoice, told: Told) -> BucketSetting:
    """Return a setting of a board; each process makes it once."""
    return _setting(choice.model_dump_json(), told)


@lru_cache(maxsize=8)
def _setting(choice: str, told: Told) -> BucketSetting:
    read = GameChoice.model_validate_json(choice)
    game = registry.make(read.name, **read.options)
    abstraction = registry.hand_abstraction(game)
    assert abstraction is not None
    return BucketSetting(game, abstraction, values.index_game(abstraction.bucketed_game), told)


def families(choice: GameChoice) -> BucketFamilies:
    """Return the families of opponents in a game."""
    made = setting(choice, "own_cards")
    return BucketFamilies(made.game, made.abstraction, made.indexed)


def read_opponents(choice: GameChoice, place: str) -> list[BucketOpponent]:
    """Read the opponents of a board: `place` is "development", or a folder of test opponents.

    Raises UserError if they are missing or damaged, or belong to other options of the game.
    """
    folder = Path(place)
    if place == opponent_files.DEVELOPMENT:
        folder = opponent_files.FOLDER / choice.name
        if not folder.is_dir():
            raise UserError(
                f"opponents: there are no development opponents for {choice.name}: "
                f"{opponent_files.REMEDY}"
            )
    elif not (folder / opponent_files.DESCRIPTIONS).is_file():
        raise UserError(f"opponents: {place} has no test opponents: {opponent_files.REMEDY}")
    return bucket_opponents.load(families(choice), folder, choice.options)


def population_prior(choice: GameChoice, members: int, seed: int) -> BucketPrior:
    """Return the prior of a population of training opponents; each process makes it once."""
    return _prior(choice.model_dump_json(), members, seed)


@lru_cache(maxsize=2)
def _prior(choice: str, members: int, seed: int) -> BucketPrior:
    game = GameChoice.model_validate_json(choice)
    drawn = families(game).draw_training(members, np.random.default_rng(seed))
    here = setting(game, "own_cards")
    return BucketPrior(here.indexed, drawn, here.abstraction.groups)


_ORACLES: dict[tuple[str, str], tuple[BehaviouralPolicy, float]] = {}


def oracle(choice: GameChoice, opponent: BucketOpponent) -> tuple[BehaviouralPolicy, float]:
    """Return the best response in the abstraction to an opponent, and its payoff.

    Each process computes it once.
    """
    key, here = (choice.model_dump_json(), opponent.digest), setting(choice, "own_cards")
    if key not in _ORACLES:
        policy = oracle_policy(here, opponent)
        _ORACLES[key] = policy, sampled_payoff(here.game, policy, opponent)
    return _ORACLES[key]


def opponent_facts(choice: GameChoice, opponent: BucketOpponent) -> dict[str, Any]:
    """Return the entries of an `OpponentResult` that do not depend on the player.

    The best response is that of the abstraction; its payoff is a mean of sampled games.
    """
    return {
        "in_training": opponent.family in families(choice).training(),
        "best_response_payoffs": [oracle(choice, opponent)[1]],
        "equilibrium_payoff": None,
    }

"""The players of a board's methods, and the results of one player against one opponent."""

from __future__ import annotations

import shlex
import shutil
import sys
from functools import partial
from pathlib import Path
from typing import Any

from numpy.random import Generator

from overtrick.comparison import board_models, bucket_board_players
from overtrick.comparison.board_job import BoardJob, BoardMethod
from overtrick.core import BehaviouralPolicy, UserError
from overtrick.evaluation.board import board_evaluation
from overtrick.evaluation.board.board_match import MatchResult, play_match
from overtrick.evaluation.board.board_setting import ActingPlayer, BoardPlayer, BoardSetting
from overtrick.evaluation.board.bucket_opponents import BucketOpponent
from overtrick.evaluation.board.end_observations import SETTINGS
from overtrick.evaluation.board.opponent_files import BoardOpponent
from overtrick.evaluation.board.players import FixedPlayer, OraclePlayer, PopulationPosteriorPlayer
from overtrick.evaluation.board.process_player import ProcessPlayer
from overtrick.evaluation.evaluate import exact_payoff
from overtrick.evaluation.game_cache import cached_equilibrium
from overtrick.policies.tabular import TabularPolicy
from overtrick.solvers.extensive import best_response


def check_method(job: BoardJob, method: BoardMethod) -> None:
    """Raise UserError if a method's program is missing, or its model cannot play on the board."""
    if method.command is not None:
        words = shlex.split(method.command)
        if not words or shutil.which(words[0]) is None:
            raise UserError(f"there is no program `{method.command}`")
        if job.limits.memory_gib is not None and sys.platform != "linux":
            raise UserError("limits.memory_gib: only Linux has this limit; set it to null")
    if method.model is not None:
        board_models.check_model(job, method.model)


def plays(method: BoardMethod, opponent: BoardOpponent | BucketOpponent) -> bool:
    """Return whether a method plays against an opponent: a model not if the opponent changes."""
    return method.player != "model" or not opponent.changes


def evaluate_method(
    rng: Generator, job: BoardJob, name: str, told: str, opponent: BoardOpponent | BucketOpponent
) -> dict[str, Any]:
    """Evaluate a method in one setting against one opponent; return an `OpponentResult`."""
    if isinstance(opponent, BucketOpponent):
        return bucket_board_players.evaluate_method(job, name, told, opponent)
    method = job.methods[name]
    here = board_evaluation.setting(job.game, SETTINGS.get(told, "own_cards"))
    per_game, memory = job.limits.seconds_per_game, job.limits.memory_gib

    size, seed = method.population_size, method.population_seed
    population = partial(board_evaluation.population_prior, job.game, here.told, size, seed)

    def new_player(here: BoardSetting, player_rng: Generator) -> BoardPlayer | ActingPlayer:
        """Return the player of one match."""
        if method.player == "equilibrium":
            return FixedPlayer(cached_equilibrium(job.game))
        if method.player == "oracle":
            return OraclePlayer(here.tree, opponent, method.exploitability_bound)
        if method.command is not None:
            seconds = None if per_game is None else per_game * job.budgets[-1]
            folder = Path(method.folder or ".")
            return ProcessPlayer(
                method.command, folder, job.game, here, player_rng, seconds, memory
            )
        return PopulationPosteriorPlayer(population(), player_rng, method.exploitability_bound)

    def measure(policy: BehaviouralPolicy) -> tuple[float, float]:
        """Return the exact payoff and exploitability of a model's policy."""
        strategy = best_response.sigma_of(here.tree, [policy] * 2)
        payoff = exact_payoff(here.tree, strategy, opponent.phases[-1])
        return payoff, best_response.exploitability(here.tree, strategy)

    def play(match_rng: Generator) -> MatchResult:
        """Play one match."""
        return play_match(here, new_player, opponent, job.budgets, match_rng, per_game)

    seconds_per_game = None
    if method.model is not None:
        met = TabularPolicy(opponent.phases[-1])
        matches = board_models.model_matches(job, method.model, opponent, met, measure)
    else:
        if method.player == "population_posterior":
            population()  # made before the clocks of matches start
        matches, seconds_per_game = board_evaluation.play_matches(play, opponent, job.seeds)
    facts = board_evaluation.opponent_facts(job.game, opponent)
    return board_evaluation.opponent_result(name, told, opponent, facts, matches, seconds_per_game)

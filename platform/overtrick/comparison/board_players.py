"""The players of a board's methods, and the results of one player against one opponent."""

from __future__ import annotations

from functools import partial
from typing import Any

from numpy.random import Generator

from overtrick.comparison import board_models, bucket_board_players
from overtrick.comparison.board_job import BoardJob, BoardMethod
from overtrick.comparison.board_population import posterior_players
from overtrick.comparison.board_programs import check_program, start_program
from overtrick.core import BehaviouralPolicy
from overtrick.evaluation.board import board_evaluation
from overtrick.evaluation.board.board_match import MatchResult, play_match
from overtrick.evaluation.board.board_setting import ActingPlayer, BoardSetting, StrategyPlayer
from overtrick.evaluation.board.bucket_opponents import BucketOpponent
from overtrick.evaluation.board.end_observations import SETTINGS
from overtrick.evaluation.board.in_context_player import InContextPlayer
from overtrick.evaluation.board.opponent_files import BoardOpponent
from overtrick.evaluation.board.players import FixedPlayer, OraclePlayer
from overtrick.evaluation.evaluate import exact_payoff
from overtrick.evaluation.game_cache import cached_equilibrium
from overtrick.policies.tabular import TabularPolicy
from overtrick.solvers.extensive import best_response
from overtrick.solvers.safe_exploitation import nearest_safe_strategy
from overtrick.training.adaptation.training_opponents import read_stored


def check_method(job: BoardJob, method: BoardMethod) -> None:
    """Raise UserError if a method's program is missing, or its model cannot play on the board."""
    if method.command is not None:
        check_program(job, method)
    read_stored(job.game, method.psro, method.league)
    if method.player == "in_context":
        board_models.check_in_context(job, method)
    elif method.model is not None:
        board_models.check_models(job, method)


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
    bound = method.exploitability_bound

    population = partial(posterior_players, job.game, here.told, method)

    # made before the clocks of matches start
    equilibrium = cached_equilibrium(job.game)
    network = board_models.in_context_model(job, method) if method.player == "in_context" else None

    def new_player(here: BoardSetting, player_rng: Generator) -> StrategyPlayer | ActingPlayer:
        """Return the player of one match."""
        if method.player == "equilibrium":
            return FixedPlayer(equilibrium)
        if method.player == "oracle":
            return OraclePlayer(here.tree, opponent, bound)
        if method.command is not None:
            return start_program(job, method, here, player_rng)
        if method.player == "in_context":
            assert network is not None
            return InContextPlayer(here, network.weights, equilibrium, bound)
        return population().new_player(player_rng, bound)

    def measure(policy: BehaviouralPolicy) -> tuple[float, float]:
        """Return the exact payoff and exploitability of a model's policy, within the bound."""
        strategy = best_response.sigma_of(here.tree, [policy] * 2)
        if bound is not None:
            strategy = nearest_safe_strategy(here.tree, equilibrium, strategy, bound)
        payoff = exact_payoff(here.tree, strategy, opponent.phases[-1])
        return payoff, best_response.exploitability(here.tree, strategy)

    def play(match_rng: Generator) -> MatchResult:
        """Play one match."""
        limit = job.limits.seconds_per_game
        return play_match(here, new_player, opponent, job.budgets, match_rng, limit)

    seconds_per_game = None
    if method.player == "model":
        met = TabularPolicy(opponent.phases[-1])
        matches = board_models.model_matches(job, method, opponent, met, measure)
    else:
        if method.player == "population_posterior":
            population()  # made before the clocks of matches start
        matches, seconds_per_game = board_evaluation.play_matches(play, opponent, job.seeds)
    facts = board_evaluation.opponent_facts(job.game, opponent)
    return board_evaluation.opponent_result(name, told, opponent, facts, matches, seconds_per_game)

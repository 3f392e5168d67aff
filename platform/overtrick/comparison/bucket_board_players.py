"""Methods of a board in a game that is too large for a tree, and the results of one of them."""

from __future__ import annotations

from functools import partial
from typing import Any

from numpy.random import Generator

from overtrick.comparison import board_models
from overtrick.comparison.board_job import BoardJob
from overtrick.comparison.board_programs import start_program
from overtrick.core import BehaviouralPolicy, UserError
from overtrick.evaluation.board import board_evaluation, bucket_board
from overtrick.evaluation.board.board_match import MatchResult
from overtrick.evaluation.board.board_setting import ActingPlayer
from overtrick.evaluation.board.bucket_match import play_match, sampled_payoff
from overtrick.evaluation.board.bucket_opponents import BucketOpponent
from overtrick.evaluation.board.bucket_players import (
    BucketPosteriorPlayer,
    FixedPolicyPlayer,
)
from overtrick.evaluation.board.bucket_setting import BucketSetting, PolicyPlayer
from overtrick.evaluation.board.end_observations import SETTINGS

MOST_MEMBERS = 200  # of a population
PLAYERS = ("oracle", "population_posterior", "model", "program")


def check(job: BoardJob) -> None:
    """Raise UserError, naming the key, if a method of a board needs a game tree.

    Call it only for a game that is too large for a tree. It refuses other players than PLAYERS, a
    population of more than MOST_MEMBERS strategies, a bound on exploitability, and populations from
    stored runs of PSRO or a league.
    """
    for name, method in job.methods.items():
        if method.player not in PLAYERS:
            raise UserError(
                f"methods.{name}.player: in {job.game.name}, which is too large for a tree, it "
                f"must be {', '.join(PLAYERS)}"
            )
        if method.player == "population_posterior" and method.population_size > MOST_MEMBERS:
            raise UserError(
                f"methods.{name}.population_size: it is at most {MOST_MEMBERS} in {job.game.name}, "
                "where each strategy takes 5 MB in each process"
            )
        if method.exploitability_bound is not None:
            raise UserError(
                f"methods.{name}.exploitability_bound: {job.game.name} is too large to bound it"
            )
        for key in {"psro", "league"} & method.models(job.seeds).keys():
            raise UserError(
                f"methods.{name}.{key}: in {job.game.name}, which is too large for a tree, a "
                "population has no policies of stored runs"
            )


def evaluate_method(
    job: BoardJob, name: str, told: str, opponent: BucketOpponent
) -> dict[str, Any]:
    """Evaluate a method in one setting against one opponent; return an `OpponentResult`."""
    method = job.methods[name]
    here = bucket_board.setting(job.game, SETTINGS.get(told, "own_cards"))

    population = partial(
        bucket_board.population_prior, job.game, method.population_size, method.population_seed
    )

    def new_player(setting: BucketSetting, rng: Generator) -> PolicyPlayer | ActingPlayer:
        """Return the player of one match."""
        if method.command is not None:
            return start_program(job, method, setting, rng)
        if method.player == "oracle":
            return FixedPolicyPlayer(bucket_board.oracle(job.game, opponent)[0])
        return BucketPosteriorPlayer(setting, population(), rng)

    def measure(policy: BehaviouralPolicy) -> tuple[float, None]:
        """Return the payoff of a model's policy in sampled games."""
        return sampled_payoff(here.game, policy, opponent), None

    def play(rng: Generator) -> MatchResult:
        """Play one match."""
        limit = job.limits.seconds_per_game
        return play_match(here, new_player, opponent, job.budgets, rng, limit)

    seconds_per_game = None
    if method.model is not None:
        matches = board_models.model_matches(job, method, opponent, opponent.policy, measure)
    else:
        if method.player == "population_posterior":
            population()  # made before the clocks of matches start
        matches, seconds_per_game = board_evaluation.play_matches(play, opponent, job.seeds)
    facts = bucket_board.opponent_facts(job.game, opponent)
    return board_evaluation.opponent_result(name, told, opponent, facts, matches, seconds_per_game)

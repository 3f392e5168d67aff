"""Job file of the trainer `league`."""

from __future__ import annotations

from typing import Literal

from numpy.random import Generator
from pydantic import Field, model_validator

from overtrick.config.job_file import Job
from overtrick.config.sections import Count, Fraction, Positive, UnusedKeys
from overtrick.core import Game, UserError
from overtrick.core.games import ReportsWinners
from overtrick.evaluation import evaluate as evaluation
from overtrick.evaluation.game_cache import two_seat_game
from overtrick.games import registry
from overtrick.learners.weights import repeat
from overtrick.policies.forward_pass import Weights
from overtrick.policies.network_sizes import input_size, output_size
from overtrick.policies.recurrent_layer import initial_memory
from overtrick.solvers import sequence_form
from overtrick.training.adaptation.opponent_population import check_action_std_scale
from overtrick.training.equilibrium.psro_job import EvaluationAgainstRandom
from overtrick.training.initial_policy import InitialPolicy
from overtrick.training.shared_sections import (
    ActionStdSchedule,
    ClippedActionGradient,
    PpoLearner,
    RandomMembers,
    ShapingSchedule,
)


class League(
    InitialPolicy,
    PpoLearner,
    ClippedActionGradient,
    ActionStdSchedule,
    ShapingSchedule,
    RandomMembers,
):
    """Settings of the league and of the policy gradient of its learners.

    The shares of opponents are those of Vinyals et al. 2019. In the paper an exploiter succeeds
    when it wins 0.7 of its games; here, when it wins `winning_share` of the points.
    """

    unused_keys = (
        *InitialPolicy.unused_keys,
        *ActionStdSchedule.unused_keys,
        UnusedKeys({"random_players": (0,)}, tuple(RandomMembers.model_fields)),
    )

    main_agents: Count = 1
    """Learners that play against themselves and against all past players."""

    main_exploiters: int = Field(default=1, ge=0)
    """Learners that play against the main agents as they are now."""

    league_exploiters: int = Field(default=1, ge=0)
    """Learners that play against all past players. When one beats them all, a copy joins them."""

    random_players: int = Field(default=0, ge=0)
    """Number of random networks among the past players from the start: weak opponents for learners
    that know nothing yet.
    """

    train_both_seats: bool = False
    """In games against itself a main agent learns from the decisions of both seats, so that such a
    game counts twice. If false, it learns from one seat, drawn at random.
    """

    game_shards: Count = 1
    """Shards into which the games of a learner are divided, so that several workers can play them
    at once; one of them then trains the learner. 1: one worker plays them all and trains. The value
    changes the random numbers of a run, the number of workers does not.
    """

    learning_rate: Positive = 0.005
    """Adam's learning rate at the start; it falls linearly to 0 over the run, or for an exploiter
    over `exploiter_iterations` iterations.
    """

    entropy_coef: float = Field(default=0.02, ge=0)
    """Entropy bonus, in points per nat."""

    snapshot_interval: Count = 10
    """Iterations between copies of a main agent that join the past players, and the least number of
    iterations between copies of an exploiter.
    """

    exploiter_iterations: Count = 40
    """Iterations after which a copy of an exploiter joins the past players even if it has not
    beaten its opponents.
    """

    self_play_share: Fraction = 0.35
    """Share of a main agent's games against the current main agents."""

    forgotten_share: Fraction = 0.15
    """Share of a main agent's games against past main agents to which it loses and against past
    main exploiters. Without such players these games are against the current main agents.
    """

    winning_share: float = Field(default=0.6, gt=0.5, le=1)
    """A player beats another if it wins at least this share of their points. A copy of an exploiter
    that beats all its opponents joins the past players.
    """

    exploiter_start: Literal["initial", "main_agent"] = "initial"
    """New learner of an exploiter that starts anew. initial: as at the start of the run, random or
    from `initial_model`; main_agent: a copy of main agent 0 at that moment, for games in which a
    new network takes long to learn anything.
    """

    reset_probability: Fraction = 0.25
    """Probability that a league exploiter starts anew after it has joined the past players. A main
    exploiter always does.
    """

    priority_power: float = Field(default=2.0, ge=0)
    """Exponent of prioritised fictitious self-play: past players are drawn in proportion to
    (1 - share of points won from them) to this power.
    """

    def initial_past_players(self, game: Game, rng: Generator) -> Weights:
        """Return the weights (random_players, ...) of the random networks of the league.

        They do not use their memory, which other players of the league have.
        """
        sizes = (input_size(game), *self.hidden, output_size(game))
        count = self.random_players
        networks = self.random_networks(sizes, count, rng, self.action_log_std(game))
        if self.memory:
            memory = initial_memory(sizes[0], sizes[1], self.memory, rng)
            networks |= repeat(memory, count)
        return dict(sorted(networks.items()))

    @model_validator(mode="after")
    def _shards_have_games(self) -> League:
        if self.game_shards > self.games:
            raise ValueError("game_shards must be at most games")
        return self

    @model_validator(mode="after")
    def _shares_leave_room(self) -> League:
        if self.self_play_share + self.forgotten_share > 1:
            raise ValueError("self_play_share and forgotten_share are more than 1 together")
        return self


class LeagueJob(Job):
    """Job file of the trainer `league`: main agents, exploiters and past players."""

    unused_keys = (
        UnusedKeys(
            {"league.main_exploiters": (0,), "league.league_exploiters": (0,)},
            ("league.exploiter_iterations", "league.winning_share", "league.exploiter_start"),
        ),
        UnusedKeys({"league.league_exploiters": (0,)}, ("league.reset_probability",)),
    )

    trainer: Literal["league"]
    league: League = League()
    evaluate: EvaluationAgainstRandom = EvaluationAgainstRandom()


def check_league_job(job: LeagueJob) -> None:
    """Raise UserError unless the game has two seats and all opponents exist.

    The game must also be zero-sum, or report its winners.
    """
    game, tree = two_seat_game(job.game)
    if not isinstance(game, ReportsWinners):
        registry.check_zero_sum(game)
    job.league.check_clipped_actions(game, "league.clipped_action_gradient")
    job.league.check_action_std(game, "league.action_std")
    job.league.check_shaping(game, "league.shaping_end")
    if tree is not None:
        sequence_form.check_two_player_zero_sum(tree, "trainer league")
    check_action_std_scale("league.action_std_scale", job.league.action_std_scale, game)
    job.league.check_initial_policy(game, job.game, "league", job.stop.iterations)
    exploiters = job.league.main_exploiters + job.league.league_exploiters
    if exploiters and job.league.value_warmup_iterations >= job.league.exploiter_iterations:
        raise UserError(
            "league.value_warmup_iterations must be below league.exploiter_iterations, so that "
            "exploiters learn, too"
        )
    evaluation.check_evaluation(job.game, job.evaluate)

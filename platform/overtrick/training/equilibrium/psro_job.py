"""Job file of the trainer `psro`: its sections, and checks that need the game."""

from __future__ import annotations

from typing import Literal, get_args

from pydantic import Field, model_validator

from overtrick.config.job_file import Job
from overtrick.config.sections import (
    Count,
    Fraction,
    Opponent,
    Positive,
    Section,
    UnusedKeys,
)
from overtrick.core import UserError, is_zero_sum
from overtrick.evaluation import evaluate as evaluation
from overtrick.evaluation.evaluate import FixedPolicyEvaluation
from overtrick.evaluation.game_cache import check_discrete_actions, check_tree, playable_game
from overtrick.solvers import meta_solvers, sequence_form
from overtrick.training.rllib.rllib_job import RllibDqnConfig, RllibPpoConfig, check_minibatch
from overtrick.training.shared_sections import (
    Discount,
    HiddenLayers,
    PpoLearner,
    QLearning,
)

TREE_ORACLES = ("exact", "search")
"""Oracles that find pure strategies on the game tree; the others train networks."""
RLLIB_ORACLES = ("rllib/PPO", "rllib/DQN")


class Psro(Section):
    """Settings of policy-space response oracles: oracle, meta-solver and restricted game."""

    unused_keys = (
        UnusedKeys({"meta_solver": ("nash", "uniform", "alpha_rank")}, ("meta_solver_steps",)),
    )

    oracle: Literal["exact", "search", "ppo", "dqn", "rllib/PPO", "rllib/DQN"] = "exact"
    """Method that finds responses. exact: best responses on the tree. search: expectimax and Monte
    Carlo tree search on the tree. ppo, dqn, rllib/PPO, rllib/DQN: networks trained in games against
    the mixture, by this library or by RLlib.
    """

    form: Literal["normal", "sequence"] = "normal"
    """Use of the policies in a mixture. normal (PSRO): each seat draws one of its policies before
    the game. sequence (XDO, extensive-form double oracle): at each information set a seat may take
    any action that one of its policies takes there.
    """

    meta_solver: Literal[
        "nash", "uniform", "regret_matching", "projected_replicator_dynamics", "alpha_rank"
    ] = "nash"
    """Method that mixes the policies. nash: linear program, for two-seat zero-sum games; the others
    work for any game. With form: sequence, regret_matching is CFR+.
    """

    meta_solver_steps: Count = 10_000
    """Steps of regret matching or of replicator dynamics in each round."""

    payoff_games: Count = 1000
    """Games that estimate the payoffs of each profile of policies, in games without a tree."""


class LookaheadOracle(Section):
    """Settings of the oracle `search`; the section `search` of a job is that of sweeps."""

    unused_keys = (UnusedKeys({"depth": (None,)}, ("simulations",)),)

    depth: int | None = Field(default=None, ge=0)
    """Number of own decisions that are searched exhaustively; null: all decisions."""

    simulations: Count = 1000
    """Simulations of Monte Carlo tree search at each information set below `depth`."""


class PpoOracle(PpoLearner):
    """Settings of the oracle `ppo`: PPO trains a policy network against the mixture."""

    learning_rate: Positive = 0.005
    """Adam's learning rate at the start of a round; it falls linearly to 0."""

    iterations: Count = 100
    """Training iterations per round."""


class DqnOracle(QLearning):
    """Settings of the oracle `dqn`: Q-learning trains a network against the mixture."""

    hidden: HiddenLayers = (64, 64)
    epsilon: Fraction = 0.5
    """Probability of a random action at the start of a round."""

    learning_rate: Positive = 0.003
    """Adam's learning rate at the start of a round; it falls linearly to 0."""

    iterations: Count = 100
    """Training iterations per round."""

    games: Count = 500
    """Games per training iteration."""


class RllibOracle(Section):
    """Settings of the oracles rllib/PPO and rllib/DQN: RLlib trains one network for each seat."""

    ppo: RllibPpoConfig = RllibPpoConfig()
    dqn: RllibDqnConfig = RllibDqnConfig()
    hidden: HiddenLayers = (64, 64)
    learning_rate: Positive = 0.001
    """Adam's learning rate."""

    discount: Discount = 1.0
    iterations: Count = 20
    """Training iterations per round."""

    env_steps: Count = 4000
    """Smallest number of decisions per training iteration, of all seats together."""

    @model_validator(mode="after")
    def _minibatch_is_filled(self) -> RllibOracle:
        check_minibatch(self.ppo, self.env_steps)
        return self


class EvaluationAgainstRandom(FixedPolicyEvaluation):
    """Settings of the evaluation against held-out opponents, by default only random play."""

    opponents: tuple[Opponent, ...] = Field(default=("random",), min_length=1)
    """Held-out opponents: names of reference opponents or runs, or folders of models."""


def _all_but(*names: str) -> tuple[str, ...]:
    """Return the names of all oracles but these."""
    known = get_args(Psro.model_fields["oracle"].annotation)
    return tuple(name for name in known if name not in names)


class PsroJob(Job):
    """Job file of the trainer `psro`: policy-space response oracles."""

    unused_keys = (
        UnusedKeys({"psro.oracle": _all_but("search")}, ("lookahead",)),
        UnusedKeys({"psro.oracle": _all_but("ppo")}, ("ppo",)),
        UnusedKeys({"psro.oracle": _all_but("dqn")}, ("dqn",)),
        UnusedKeys({"psro.oracle": _all_but(*RLLIB_ORACLES)}, ("rllib",)),
        UnusedKeys({"psro.oracle": ("rllib/PPO",)}, ("rllib.dqn",)),
        UnusedKeys({"psro.oracle": ("rllib/DQN",)}, ("rllib.ppo",)),
    )

    trainer: Literal["psro"]
    psro: Psro = Psro()
    lookahead: LookaheadOracle = LookaheadOracle()
    ppo: PpoOracle = PpoOracle()
    dqn: DqnOracle = DqnOracle()
    rllib: RllibOracle = RllibOracle()
    evaluate: EvaluationAgainstRandom = EvaluationAgainstRandom()


def check_psro_job(job: PsroJob) -> None:
    """Raise UserError if the game does not allow the oracle, the meta-solver or the form."""
    game, tree = playable_game(job.game)
    check_discrete_actions(game)
    section = job.psro
    if section.oracle in TREE_ORACLES:
        check_tree("psro.oracle", section.oracle, game, tree, "set ppo or dqn")
    if section.form == "sequence":
        check_tree("psro.form", "sequence", game, tree, "set normal")
        if section.oracle == "search" and job.lookahead.depth is not None:
            raise UserError(
                "psro.form: sequence needs pure strategies, and Monte Carlo tree search leaves "
                "some rows mixed: leave out lookahead.depth, or set psro.form to normal"
            )
        if section.oracle not in TREE_ORACLES:
            raise UserError(
                f"psro.form: sequence needs pure strategies, and the networks of {section.oracle} "
                "play every action: set psro.oracle to exact or search"
            )
        if section.meta_solver not in ("nash", "regret_matching"):
            raise UserError(
                f"psro.meta_solver: {section.meta_solver} mixes whole policies: with psro.form "
                "sequence, set nash or regret_matching"
            )
    zero_sum = game.seats == 2 and is_zero_sum(game)
    if tree is not None:
        zero_sum = sequence_form.is_two_player_zero_sum(tree)
    if section.meta_solver == "nash" and not zero_sum:
        raise UserError(f"psro.meta_solver: {meta_solvers.NASH_REMEDY}")
    most = int(meta_solvers.MOST_PROFILES ** (1 / game.seats)) - 1
    if section.meta_solver == "alpha_rank" and job.stop.iterations > most:
        raise UserError(
            f"psro.meta_solver: alpha_rank takes at most {most} rounds in a game of {game.seats} "
            "seats: lower stop.iterations, or set another meta-solver"
        )
    if tree is not None and section.changed_keys(["payoff_games"]):
        raise UserError(
            f"psro.payoff_games has no effect: payoffs in {game.name} are exact, so leave it out"
        )
    evaluation.check_evaluation(job.game, job.evaluate)

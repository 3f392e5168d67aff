"""Names of metrics in MLflow: build them from opponents and units, and parse them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

History = Sequence[tuple[int, Mapping[str, float]]]
"""The iterations of one run in order, each with its metrics."""

OPPONENTS = "opponents"
"""Stands for all training opponents together, in place of an opponent's name."""

ITERATIONS = "solver_iterations"
"""Metric: iterations of the solvers so far."""

NASH_CONV = "nash_conv"
"""Metric: NashConv of a population's mixture, in points per game."""

EVALUATIONS = "evaluations"
"""Metric: genomes that an evolution strategy has evaluated so far."""

GAMES = "games"
"""Metric: games that a card-play learner has played so far."""

MADE = "made/"
"""Prefix of a metric: share of contracts that a declarer makes against given defenders."""

SCORE = "score"
"""Final metric of every run in MLflow: its score, larger is better. Of a sweep, the best one."""

SPEED = "speed/"
"""Prefix of metrics that differ between equal runs; they are not part of a run's history."""

ITERATION_SECONDS = f"{SPEED}iteration_seconds"
"""Metric: seconds of an iteration."""

DECISIONS = "decisions"
"""Metric: number of decisions of all seats in the games of an iteration.

The page of a trainer says which games count.
"""

GAMES_PER_SECOND = f"{SPEED}games_per_second"
"""Metric: games played in an iteration, divided by its seconds."""

RECOGNISED = "recognised"
"""Metric: share of decisions for which a Q-table of card play has an entry."""


MEANINGS = {
    r"(.+)/after_0_(.+)": "payoff against {0} before adaptation, in {1}s a game",
    r"(.+)/after_(\w+?)_(.+)": "payoff against {0} after adaptation step {1}, in {2}s a game",
    r"(.+)/mean_(.+)": "mean payoff of {0} against all other players, in {1}s a game",
    r"(.+)/share_(\w+)_(\w+)": "share of the best response's payoff that {0} wins after {2} games, "
    "told {1}",
    r"(.+)/(declarer|defenders)_points": "mean points a board of the player {0} as {1}, minus "
    "those of double dummy",
    r"(.+)/duplicate_imps": "mean IMPs a board that {0} wins against the first player",
    "(.+)/score": "mean return of {0} minus its largest loss, in points a match",
    r"exploitability_(.+)/(.+)": "gain of a best response to {1}, mean of the seats, in {0}s a "
    "game; 0 at an equilibrium",
    "nash_conv": "gain of a best response, summed over the seats, in points a game; 0 at an "
    "equilibrium",
    "past_players": "past players of the league",
    DECISIONS: "number of decisions of all seats in the games of this iteration",
    "policies": "policies of each seat in the population",
    "policies_used": "policies with a share of 0.001 or more in the mixture, mean of the seats",
    "qre_gap_(.+)": "NashConv of the game with entropy, in {0}s a game; 0 at the "
    "quantal response equilibrium",
    "fitness_(best|mean|worst)": "{0} fitness of the population",
    "kl": "mean KL divergence of the new policy from the old one, in nats a decision",
    "gain": "gain in payoff of the update, estimated from its own sample",
    "step_taken": "share of the full TRPO step that the line search accepted",
    "critic_loss": "mean squared error of the critic",
    "value_loss": "loss of the Q-network",
    "average_loss": "cross-entropy of the average policy, in nats a decision",
    "imitation_loss": "cross-entropy of the opponent model, in nats a decision",
    "teacher_share": "expected share of the games that the teacher plays",
    "teacher_kl_nats": "mean KL divergence from the pretrained policy, in nats a decision",
    "entropy_nats": "mean entropy of the policy, in nats a decision",
    "loss_nats": "cross-entropy, in nats",
    "loss": "total loss of the learner",
    "diverged_games": "games whose simulation diverged",
    "games": "games so far",
    "turns": "environment steps so far",
    "auctions": "auctions so far",
    "boards": "boards so far",
    "evaluations": "genomes evaluated so far",
    "starts": "starts of the evolution strategy so far",
    "step_size": "step size of the evolution strategy",
    "solver_iterations": "iterations of the solvers so far",
    "made": "share of contracts made in this iteration",
    "made_so_far": "share of contracts made so far",
    "made/(.+)": "share of contracts made against the defenders '{0}'",
    "choices/(.+)": "state-action pairs in the Q-table of the {0}",
    "recognised": "share of decisions for which the Q-table has an entry",
    "true_calls": "share of calls, without passes, that describe the hand correctly",
    "unforeseen_imps": "root mean square of the advantage, in IMPs",
    "call_spread_imps": "root mean square of the advantages of likely calls, in IMPs",
    "imps_per_board": "mean IMPs a board against the policy before training",
    "imps_per_board_se": "standard error of imps_per_board",
    "imps_per_board_(.+)_se": "standard error of imps_per_board_{0}",
    "imps_per_board_(.+)": "mean IMPs a board against {0}",
    "error_imps": "mean absolute error of the predicted IMPs",
    "within_2": "share of predictions at most 2 IMPs away from the result",
    "likeliest_right": "share of calls whose most likely outcome is the result",
    "likeliest_within_2": "share of calls whose most likely outcome is at most 2 IMPs away",
    "total_precision": "share of recorded calls that are the most likely call of the network",
    "real_precision": "the same share among recorded bids",
    "unreal_precision": "the same share among recorded passes, doubles and redoubles",
    "sure": "mean probability of the most likely call",
    "calibration_error": "mean difference between the probability of the most likely call and the "
    "share of such calls that are right, over ten bins",
}
"""Meanings of the metrics, by a regular expression of the whole name. The first match counts.

{0}, {1} stand for the groups of the expression. docs/algorithms/ has the formulas.
"""


def metric_meaning(name: str) -> str:
    """Return the meaning of a metric in a few words; empty for an unknown metric."""
    for pattern, meaning in MEANINGS.items():
        if found := re.fullmatch(pattern, name):
            return meaning.format(*map(_in_words, found.groups()))
    return ""


def _in_words(part: str) -> str:
    """Return a part of a metric's name in words: a unit, a solver, or all training opponents."""
    words = {OPPONENTS: "the opponents of training", "big_blind": "big blind"}
    return words.get(part, part.replace("cfr_plus", "cfr+"))


def gap_name(policy: str, unit: str) -> str:
    """Return the MLflow name of the exploitability metric of a policy or solver, with the unit.

    A plus sign, which MLflow does not accept, becomes "_plus".
    """
    return f"exploitability_{unit.replace(' ', '_')}/{policy.replace('+', '_plus')}"


def mean_name(player: str, unit: str) -> str:
    """Return the MLflow name of a player's mean payoff against all its opponents."""
    return f"{player}/mean_{unit.replace(' ', '_')}"


def qre_gap_name(unit: str) -> str:
    """Return the MLflow name of the NashConv with entropy of mmd-qre, with the unit."""
    return f"qre_gap_{unit.replace(' ', '_')}"


def opponent_label(opponent: str) -> str:
    """Return the short name of an opponent for metrics and figures.

    `opponent`: a name, or the path of a model folder. For the model of a run, the short name is the
    name of the run, and for its best model RUN/best.
    """
    path = Path(opponent)
    if "/" not in opponent:
        return opponent
    path = path.parent if path.name == "model" else path
    return f"{path.parent.name}/best" if path.name == "best" and path.parent.name else path.name


def payoff_name(opponent: str, step: int, unit: str) -> str:
    """Return the MLflow name of the payoff against an opponent after `step` adaptation steps."""
    return f"{opponent}/after_{step}_{unit.replace(' ', '_')}"


def last_steps(history: Iterable[tuple[int, Mapping[str, float]]]) -> dict[str, int]:
    """Return for each opponent the largest number of adaptation steps with a measured payoff.

    `history`: pairs of an iteration and its metrics.
    """
    last: dict[str, int] = {}
    for _, metrics in history:
        for name in metrics:
            if found := re.fullmatch(r"(.+)/after_(\d+)_.+", name):
                opponent, step = found[1], int(found[2])
                if opponent != OPPONENTS:
                    last[opponent] = max(last.get(opponent, 0), step)
    return last

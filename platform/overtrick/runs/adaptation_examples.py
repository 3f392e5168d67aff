"""Games that show how a model adapts to an opponent: its decisions before and after, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup
from numpy.random import Generator

from overtrick.config.job_file import Job
from overtrick.core import Array
from overtrick.distributed.workers import RngStream, generator
from overtrick.evaluation.game_cache import cached_opponent, playable_game
from overtrick.games import registry
from overtrick.policies.rollout import play
from overtrick.policies.tabular import TabularPolicy
from overtrick.reports.html import elements, replays
from overtrick.reports.html.elements import PageSection
from overtrick.reports.metric_names import opponent_label
from overtrick.solvers.extensive import best_response
from overtrick.solvers.extensive.tree import Tree
from overtrick.storage.game_records import Recorder
from overtrick.training.registry import TRAINERS, adapts

OPPONENTS = 3  # with one example game each
GAMES = 500  # from which the example is chosen


class Decision(NamedTuple):
    """A decision of the model in an example game; arrays have an entry for each action."""

    observation: str
    legal: Array  # (A,) bool
    action: int  # that the adapted model took
    before: Array  # (A,) probabilities before adaptation
    after: Array  # (A,) probabilities after adaptation
    value: Array  # (A,) expected points of each action, if the adapted strategy follows

    @property
    def gain(self) -> float:
        """Return the expected points by which adaptation improves this decision."""
        return float(((self.after - self.before) * self.value)[self.legal].sum())


class ExampleGame(NamedTuple):
    """A game of an adapted model against an opponent."""

    opponent: str
    decisions: list[Decision]
    description: str  # of the whole game
    payoff: float  # of the model


def examples_section(job: Job, weights: Mapping[str, Array]) -> PageSection | None:
    """Return example games of an adapting model as a section of its HTML page.

    There is one game against each of the first three opponents of the evaluation: of 500 games, the
    one with the largest gain among those in which the model always took its most probable action.
    None if the model does not adapt, or the game has no tree.
    """
    if not adapts(job.trainer):
        return None
    trainer: Any = TRAINERS[job.trainer].trainer
    game, tree = playable_game(job.game)
    if tree is None:
        return None
    section = trainer.evaluation_section(job)
    names = section.opponents[:OPPONENTS]
    articles = []
    for name, rng in zip(
        names, generator(job.seed, RngStream.EVALUATE).spawn(len(names)), strict=True
    ):
        opponent = cached_opponent(job.game, name)
        adapt_rng, play_rng = rng.spawn(2)
        policies = trainer.adapt_model(job, weights, opponent, adapt_rng)
        sigmas = [
            best_response.sigma_of(tree, [each] * tree.seats)
            for each in (policies[0], policies[-1], opponent)
        ]
        example = find_example(game, tree, name, sigmas, play_rng)
        learnt = f"{section.steps} step{'s' * (section.steps > 1)} of {section.games} games"
        articles.append(_article(example, game, learnt))
    return PageSection("Adaptation: example games", articles)


def find_example(
    game: Any, tree: Tree, opponent: str, sigmas: Sequence[Array], rng: Generator
) -> ExampleGame:
    """Play games of an adapted model and return the one in which adaptation gained most.

    `sigmas`: strategies (N, A) of the model before adaptation, after it, and of the opponent. The
    model sits in seat 0 and the opponent in all other seats. The gain of a game is the sum of
    `Decision.gain` over the model's decisions in it. Games with an action of the model that is not
    its most probable one come last.
    """
    before, after, theirs = sigmas
    own = (tree.observations.seat == 0)[:, None]
    values, _ = best_response.conditional_action_values(tree, np.where(own, after, theirs), 0)
    recorder = Recorder(game)
    players = [TabularPolicy(after), *[TabularPolicy(theirs)] * (tree.seats - 1)]
    rollout = play(recorder, players, GAMES, rng)
    batch = rollout.batch
    assert batch.infoset is not None  # the game has a tree
    rows = np.flatnonzero(batch.seat == 0)
    sets = batch.infoset[rows]
    gains = ((after[sets] - before[sets]) * np.where(tree.legal[sets], values[sets], 0)).sum(axis=1)
    unusual = batch.action[rows] != after[sets].argmax(axis=1)
    gain = np.bincount(batch.game[rows], gains, GAMES)
    number = int(np.lexsort((-gain, np.bincount(batch.game[rows], unusual, GAMES) > 0))[0])
    shown, moves = registry.presentation(game), recorder.moves[number]
    decisions = []
    of_model = [k for k, move in enumerate(moves) if move.seat == 0]
    for place, row in zip(of_model, rows[batch.game[rows] == number], strict=True):
        infoset = int(batch.infoset[row])
        decisions.append(
            Decision(
                shown.describe_observation(batch.observation[row], moves[:place]),
                tree.legal[infoset],
                int(batch.action[row]),
                before[infoset],
                after[infoset],
                values[infoset],
            )
        )
    description = shown.describe_deal(recorder.deals[number], moves)
    return ExampleGame(opponent, decisions, description, float(rollout.payoff[number, 0]))


def _article(example: ExampleGame, game: Any, learnt: str) -> Markup:
    """Return an example game as HTML. `learnt`: the games from which the model has adapted."""
    opponent = opponent_label(example.opponent)
    actions, shown = game.action_names, registry.presentation(game)
    heads = ("action", "before", "after", f"expected payoff ({game.unit}s)")
    decisions = []
    for decision in example.decisions:
        rows = [
            (
                f"{actions[a]} (taken)" if a == decision.action else actions[a],
                f"{decision.before[a]:.0%}",
                f"{decision.after[a]:.0%}",
                f"{decision.value[a]:+.2f}",
            )
            for a in np.flatnonzero(decision.legal).tolist()
        ]
        decisions.append(
            {
                "observation": replays.mark_cards(decision.observation, shown),
                "table": elements.table(heads, rows),
                "explanation": _explain_change(decision, actions, opponent, game.unit),
            }
        )
    return elements.render(
        "example_game.html",
        opponent=opponent, learnt=learnt, decisions=decisions,
        description=replays.mark_cards(example.description, shown),
        payoff=f"{example.payoff:+g} {game.unit}s",
    )  # fmt: skip


def _explain_change(decision: Decision, actions: Sequence[str], opponent: str, unit: str) -> str:
    """Return a sentence that says what adaptation changed at a decision, and its effect."""
    increased = int(np.argmax(np.where(decision.legal, decision.after - decision.before, -1)))
    best = int(np.argmax(np.where(decision.legal, decision.value, -np.inf)))
    better = f"{actions[best]} has the highest expected payoff against {opponent}"
    if decision.after[increased] - decision.before[increased] < 0.01:
        return f"Adaptation changed nothing here; {better}."
    text = (
        f"Adaptation raised {actions[increased]} from {decision.before[increased]:.0%} to "
        f"{decision.after[increased]:.0%}: {decision.gain:+.2f} {unit}s expected"
    )
    caused = increased == best and decision.gain > 0
    return f"{text}, because {better}." if caused else f"{text}; {better}."

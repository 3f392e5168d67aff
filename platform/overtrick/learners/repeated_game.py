"""Predict an opponent in a repeated matrix game: contexts of the history, levels of reasoning.

Predictors count which action followed the last k actions, of the opponent, of the player, or of
both. Each predictor predicts the opponent's next action, and the player's own. A level of reasoning
turns a prediction into another one: an opponent that foresees the player's best response to its
action plays the best response to that. Weights by recent predictions mix all combinations.

| here | Iocaine Powder (Egnor 2000) |
|---|---|
| counts in contexts of length 0 to 6 | the longest match of the history, and frequencies |
| weights by log-likelihoods, which are forgotten at five rates | points in windows of the history |
| a mixture of all predictions at each rate | the prediction with most points |
| uniform play, preferred by 4 points | a random guess competes as a predictor |
| each action of a prediction gets its own best response | predictions are single actions |
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.random import Generator

from overtrick.core import Array

ORDERS = (6, 6, 5)  # longest contexts of the opponent's, own, and both players' actions, in rounds
COUNT_DECAY = 0.9  # of the counts of a context, at each of its occurrences
PRIOR_COUNT = 0.3  # of each action in each context
SCORE_DECAYS = (0.8, 0.93, 0.97, 0.99, 1.0)  # of the predictions' log-likelihoods, at each round
GAIN_DECAY = 0.98  # of the points that each mixture would have won, at each round
GAIN_WEIGHT = 0.5  # log-odds of choosing a mixture, for each of these points
UNIFORM_ADVANTAGE = 4.0  # uniform play is chosen as if it had won so many points more
PROBABILITY_FLOOR = 1e-3

OPPONENT, OWN, BOTH = range(3)  # whose actions are the context


class LevelKMixture:
    """Player of a repeated symmetric zero-sum game in which uniform play is an equilibrium.

    `payoff` (A, A): points of an action (row) against the opponent's action (column); points of
    about 1 suit the constants above. `rng`: of the player's draws.
    """

    def __init__(self, payoff: Array, rng: Generator) -> None:
        self.payoff, self.rng = np.asarray(payoff, float), rng
        actions = len(self.payoff)
        self.best = self.payoff.argmax(axis=0)  # (A,) best response to each action
        kinds = [(OPPONENT, 0), *((k, n) for k in range(3) for n in range(1, ORDERS[k] + 1))]
        self.kinds = np.array(kinds)  # (P, 2) whose actions, and the length of the context
        sizes = [(actions**2 if kind == BOTH else actions) ** order for kind, order in kinds]
        self.first = np.concatenate([[0], np.cumsum(sizes)])  # (P + 1,) number of contexts before
        self.counts = np.zeros((2, self.first[-1], actions))
        """After each context: 0 the opponent's actions, 1 the player's own."""
        experts = len(kinds) * 2 * actions
        self.predictions = np.full((experts, actions), 1 / actions)
        self.scores = np.zeros((len(SCORE_DECAYS), experts))
        self.gains = np.zeros(len(SCORE_DECAYS) + 1)  # of each mixture, and of uniform play
        self.values = np.zeros((len(SCORE_DECAYS), actions))  # expected points under each mixture
        self.history = np.zeros((0, 2), np.int64)  # own and the opponent's actions

    def act(self) -> int:
        """Choose an action for the next round."""
        _predict(
            self.history, self.kinds, self.first, self.counts, self.best, self.predictions,
        )  # fmt: skip
        weights = np.exp(self.scores - self.scores.max(axis=1, keepdims=True))
        mixed = (weights / weights.sum(axis=1, keepdims=True)) @ self.predictions
        self.values = mixed @ self.payoff.T
        gains = self.gains + np.append(np.zeros(len(SCORE_DECAYS)), UNIFORM_ADVANTAGE)
        odds = np.exp(GAIN_WEIGHT * (gains - gains.max()))
        chosen = self.rng.choice(len(odds), p=odds / odds.sum())
        if chosen == len(self.values):
            return int(self.rng.integers(len(self.payoff)))
        return int(self.rng.choice(np.flatnonzero(_largest(self.values[chosen]))))

    def observe(self, own: int, opponent: int) -> None:
        """Learn from a finished round. `act` has computed the predictions that are scored here."""
        likelihood = np.maximum(self.predictions[:, opponent], PROBABILITY_FLOOR)
        decays = np.array(SCORE_DECAYS)[:, None]
        self.scores = self.scores * decays + np.log(likelihood)
        choice = np.stack([_largest(value) for value in self.values])
        gain = (choice / choice.sum(axis=1, keepdims=True)) @ self.payoff[:, opponent]
        self.gains = self.gains * GAIN_DECAY + np.append(gain, self.payoff[:, opponent].mean())
        _count(self.history, self.kinds, self.first, self.counts, own, opponent)
        self.history = np.vstack([self.history, [own, opponent]])


def _largest(values: Array) -> Array:
    """Return which values (A,) are the largest, but for rounding."""
    return np.asarray(values >= values.max() - 1e-9)


@njit(cache=True)
def _context(history, kind, order, actions):  # type: ignore[no-untyped-def]
    """Return the number of the context of the next round: the last `order` actions of a kind."""
    number = 0
    for back in range(1, order + 1):
        own, opponent = history[len(history) - back]
        if kind == OPPONENT:
            number = number * actions + opponent
        elif kind == OWN:
            number = number * actions + own
        else:
            number = (number * actions + own) * actions + opponent
    return number


@njit(cache=True)
def _predict(history, kinds, first, counts, best, predictions):  # type: ignore[no-untyped-def]
    """Write the predictions of the opponent's next action: (P x 2 x A, A).

    For each predictor these are A levels of reasoning from its prediction of the opponent's action,
    then A levels from the best response to its prediction of the player's own action. Level 0 is
    the prediction itself; level k is the best response to the player's best response to level
    k - 1.
    """
    actions = len(best)
    for p in range(len(kinds)):
        kind, order = kinds[p]
        for target in range(2):
            base = np.full(actions, 1.0 / actions)
            if len(history) >= order:
                seen = counts[target, first[p] + _context(history, kind, order, actions)]
                base = (seen + PRIOR_COUNT) / (seen.sum() + actions * PRIOR_COUNT)
            for action in range(actions):
                expected = action if target == 0 else best[action]
                for level in range(actions):
                    if level > 0:
                        expected = best[best[expected]]
                    row = (p * 2 + target) * actions + level
                    if action == 0:
                        predictions[row, :] = 0.0
                    predictions[row, expected] += base[action]


@njit(cache=True)
def _count(history, kinds, first, counts, own, opponent):  # type: ignore[no-untyped-def]
    """Count the actions of a round in the context of each predictor."""
    for p in range(len(kinds)):
        kind, order = kinds[p]
        if len(history) >= order:
            context = first[p] + _context(history, kind, order, counts.shape[2])
            counts[:, context] *= COUNT_DECAY
            counts[0, context, opponent] += 1
            counts[1, context, own] += 1

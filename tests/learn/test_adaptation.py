"""How weights adapt to a stranger where no tree shows them the gradient."""

from __future__ import annotations

import numpy as np
import pytest

from overtrick.config import GameChoice
from overtrick.learners.networks import initial, repeat
from overtrick.policies import Tabular, inputs
from overtrick.trainers import adaptation
from overtrick.trainers.evaluate import Evaluate, exact_payoff
from overtrick.trainers.kept import two_seats
from overtrick.trainers.meeting import adapt, exact_sample, strategies

KUHN = GameChoice(name="kuhn")


@pytest.mark.parametrize("seed", [0, 1])
def test_imagined_games_give_the_exact_gradient_of_an_opponent_who_was_seen_enough(
    seed, monkeypatch
):
    """One step against the model moves the policy where one on the tree does, against the truth."""
    rng = np.random.default_rng(seed)
    game, tree = two_seats(KUHN)
    monkeypatch.setattr(adaptation, "two_seats", lambda choice: (game, None))
    theirs = rng.dirichlet([0.7, 0.7], tree.infosets)
    size = inputs(game)
    theta = initial((size, 32, game.actions), rng)
    critic = initial((size, 8, 1), rng, head=0.1)
    how = Evaluate(steps=1, games=20_000, draws=2, step=1.0)
    start = adaptation.Start(theta, critic, False, 1.0, "model")
    before, after = adaptation.adapted(rng, start, how, KUHN, Tabular(theirs))

    alone = repeat(theta, 1)
    right = strategies(game, tree, adapt(alone, exact_sample(game, tree, alone, theirs[None]), 1.0))
    was = strategies(game, tree, alone)[0]
    gained = exact_payoff(tree, right[0], theirs) - exact_payoff(tree, was, theirs)
    assert gained > 0.05
    for first, policy in zip(before, after, strict=True):
        np.testing.assert_allclose(first.probs(tree.turn), was, atol=1e-6)
        now = policy.probs(tree.turn)
        assert np.abs(now - right[0]).max() < 0.2 * np.abs(right[0] - was).max()
        won = exact_payoff(tree, now, theirs) - exact_payoff(tree, was, theirs)
        assert won == pytest.approx(gained, rel=0.1)

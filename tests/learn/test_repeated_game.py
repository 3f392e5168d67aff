"""Level-k mixtures in repeated games, against opponents with a known answer."""

from __future__ import annotations

import numpy as np
import pytest

from overtrick.evaluation.board.roshambo_bots import PAYOFF
from overtrick.learners.repeated_game import BOTH, LevelKMixture, _context

ROUNDS = 1000
FIVE = np.array([[(j - i) % 5 for j in range(5)] for i in range(5)])
ROCK_TO_SPOCK = np.where(FIVE == 0, 0, np.where(FIVE % 2 == 1, -1, 1))
"""Rock, paper, scissors with five actions: each beats two and loses to two."""


def play(opponent, payoff=PAYOFF, seed=0) -> list[int]:
    """Return the points of each round; `opponent(history)` chooses the opponent's action."""
    player = LevelKMixture(payoff, np.random.default_rng(seed))
    history: list[tuple[int, int]] = []
    points = []
    for _ in range(ROUNDS):
        own, theirs = player.act(), opponent(history)
        player.observe(own, theirs)
        history.append((own, theirs))
        points.append(int(payoff[own, theirs]))
    return points


def beats_the_last_action(history):
    return (history[-1][0] + 1) % 3 if history else 0


def beats_the_most_frequent_action(history):
    """It counts the player's last 20 actions and plays the best response to the most frequent."""
    recent = [own for own, _ in history[-20:]]
    return (max(range(3), key=recent.count) + 1) % 3


@pytest.mark.parametrize(
    "opponent",
    [
        lambda history: 1,
        lambda history: len(history) % 3,
        lambda history: [0, 0, 1, 2, 1][len(history) % 5],
        beats_the_last_action,
    ],
    ids=["constant", "rotating", "period of five", "beats the last"],
)
def test_a_predictable_opponent_loses_nearly_all_rounds(opponent) -> None:
    points = play(opponent)
    assert np.mean(points[100:]) > 0.9


def test_an_opponent_that_predicts_the_player_is_foreseen() -> None:
    assert np.mean(play(beats_the_most_frequent_action)[100:]) > 0.3


def test_levels_of_reasoning() -> None:
    """Rock, paper and scissors are 0, 1 and 2. Rock was seen before, of both players."""
    player = LevelKMixture(PAYOFF, np.random.default_rng(0))
    for _ in range(50):
        player.act()
        player.observe(0, 0)
    player.act()
    likeliest = player.predictions.argmax(axis=1).reshape(-1, 2, 3)
    assert (likeliest[:, 0] == [0, 2, 1]).all()  # rock; it foresees paper; it foresees rock
    assert (likeliest[:, 1] == [1, 0, 2]).all()  # paper beats the player's rock; and so on


@pytest.mark.parametrize("rounds", [1, 6])
def test_every_context_changes_with_each_of_its_rounds(rounds: int) -> None:
    player = LevelKMixture(PAYOFF, np.random.default_rng(0))
    base = np.zeros((6, 2), np.int64)
    for kind, order in player.kinds.tolist():
        if order < rounds:
            continue
        changed = base.copy()
        changed[-min(rounds, order)] = 2
        numbers = {_context(history, kind, order, 3) for history in (base, changed)}
        assert len(numbers) == 2
        assert max(numbers) < (9 if kind == BOTH else 3) ** order


def test_a_game_with_five_actions() -> None:
    assert (ROCK_TO_SPOCK == -ROCK_TO_SPOCK.T).all()
    assert np.mean(play(lambda history: 3, ROCK_TO_SPOCK)[100:]) > 0.9


def test_a_random_opponent_is_not_beaten_and_does_not_win(rng) -> None:
    """Within four standard errors of 0."""
    points = [play(lambda history: int(rng.integers(3)), seed=seed) for seed in range(5)]
    assert abs(np.mean(points)) < 4 * (2 / 3 / (5 * ROUNDS)) ** 0.5


def test_an_opponent_that_changes_is_learned_again() -> None:
    points = play(lambda history: 0 if len(history) < 500 else 2)
    assert np.mean(points[600:]) > 0.9


def test_a_copy_of_the_player_does_not_beat_it() -> None:
    """Two players against each other: the sum of points is 0, and neither wins much."""
    players = [LevelKMixture(PAYOFF, np.random.default_rng(seed)) for seed in (1, 2)]
    total = 0
    for _ in range(ROUNDS):
        first, second = (player.act() for player in players)
        players[0].observe(first, second)
        players[1].observe(second, first)
        total += int(PAYOFF[first, second])
    assert abs(total) < 150

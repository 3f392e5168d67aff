"""A game through RLlib's door, seat by seat."""

from __future__ import annotations

import numpy as np
import pytest

from overtrick import make, rllib
from overtrick.play import play
from overtrick.policies import Uniform
from overtrick.trainers.strangers import stranger

ONE = {"game": "minibridge", "options": {"scoring": "tricks"}, "seat": 0, "others": "rules"}
TINY = {
    "gamma": 1.0, "train_batch_size_per_learner": 16, "training_intensity": 1.0, "dueling": False,
    "num_steps_sampled_before_learning_starts": 100,
}  # fmt: skip


def legal(seen, rng):
    """Any legal action."""
    return int(rng.choice(np.flatnonzero(seen[rllib.LEGAL])))


@pytest.mark.parametrize("game", ["kuhn", "leduc", "minibridge"])
def test_one_seat_gains_what_the_game_says(game, rng):
    about = {"game": game, "options": {}, "seat": 0, "others": "random", "seed": 3}
    env, made = rllib.OneSeat(about), make(game)
    gains = []
    for _ in range(300):
        seen, _ = env.reset()
        gained, over = 0.0, False
        while not over:
            assert env.observation_space.contains(seen)
            assert seen[rllib.LEGAL].any()
            seen, reward, over, cut, _ = env.step(legal(seen, rng))
            assert not cut
            gained += reward
        gains.append(gained)
    payoff = play(made, (Uniform(), Uniform()), 3000, rng, watch=()).payoff[:, 0]
    error = payoff.std() * np.sqrt(1 / 300 + 1 / 3000)
    assert np.mean(gains) == pytest.approx(payoff.mean(), abs=4 * error)


def test_the_same_seed_deals_the_same_games(rng):
    env = rllib.OneSeat({**ONE, "seed": 0})
    first = [env.reset(seed=5)[0][rllib.FACTS].tolist() for _ in range(2)]
    assert first[0] == first[1]
    assert env.reset()[0][rllib.FACTS].tolist() != first[0]


def test_every_seat_is_an_agent_and_hears_what_it_gained(rng):
    env = rllib.Seats({"game": "minibridge", "options": {"seats": 4}, "seed": 1})
    seen, _ = env.reset(seed=2)
    total, turns, over = dict.fromkeys("0123", 0.0), 0, False
    while not over:
        ((agent, observation),) = seen.items()
        assert env.observation_spaces[agent].contains(observation)
        seen, gained, ends, _, _ = env.step({agent: legal(observation, rng)})
        assert agent in gained
        for each, points in gained.items():
            total[each] += points
        over, turns = ends["__all__"], turns + 1
    assert turns == 52
    assert total["0"] == total["2"] == -total["1"] == -total["3"]
    assert abs(total["0"]) == 1


def test_games_in_which_a_seat_never_acts_are_passed_over():
    about = {"game": "leduc", "options": {}, "seat": 1, "others": "random", "seed": 3}
    env = rllib.OneSeat(about)
    for _ in range(50):
        seen, _ = env.reset()
        assert seen[rllib.LEGAL].any()
        assert env.observation_space.contains(seen)


@pytest.mark.parametrize("whole", [False, True])
def test_rllib_s_dqn_is_a_policy_of_ours_that_keeps_to_the_rules(whole, local_ray):
    options = {"scoring": "tricks", "seats": 4 if whole else 2}
    seats, decisions = ([0, 2], 500) if whole else ([0], 300)
    policy, games = rllib.dqn(
        "minibridge", options, seats, "rules", decisions, 0, whole, 1000, **TINY
    )
    assert games >= decisions // 52
    game = make("minibridge")
    turn = play(
        game, (Uniform(), stranger("rules", game, None)), 20, np.random.default_rng(0)
    ).batch.turn()
    probs = policy.probs(turn)
    assert (probs.sum(axis=1) == 1).all()
    assert not (probs > 0)[~turn.legal].any()
    assert len(np.unique(probs.argmax(axis=1))) > 20  # it has an opinion

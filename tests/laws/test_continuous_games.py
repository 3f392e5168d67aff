"""Laws of games with real-valued actions, tested on sumo."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import overtrick
from overtrick.core import Game, UserError, select_rows
from overtrick.policies.rollout import play
from overtrick.policies.uniform import UniformVectorPolicy

RANDOM = UniformVectorPolicy(8)


@pytest.fixture(scope="module")
def game():
    return overtrick.make("sumo")


@pytest.fixture(scope="module")
def played(game):
    """Play some matches between random ants to their end."""
    return play(game, (RANDOM, RANDOM), 6, np.random.default_rng(2))


def after_random_steps(game, state, rng, steps=8):
    """Advance a state by some random steps."""
    for _ in range(steps):
        observations = game.observe(state)
        game.step(state, observations, rng.uniform(-1, 1, (len(observations), 8)))
    return state


def same(a, b):
    names = a.__dataclass_fields__
    return all(np.array_equal(getattr(a, name), getattr(b, name)) for name in names)


def test_sumo_has_every_member_of_the_protocol(game):
    assert isinstance(game, Game)
    assert game.actions is None
    assert len(game.action_names) == 8
    assert game.unit == "point"
    assert overtrick.make("sumo", reward="result").unit == "win"


def test_a_uniform_vector_has_its_density(game, rng):
    observations = game.observe(game.start(game.deal(50, rng)))
    actions = RANDOM.start(50, rng).act(observations)
    assert actions.action.shape == (100, 8)
    assert (np.abs(actions.action) <= 1).all()
    assert np.exp(actions.logp) == pytest.approx(0.5**8)  # the cube from -1 to 1 has volume 2^8


def test_policies_are_evaluated_by_matches_won_with_the_integrator_of_robosumo():
    game = overtrick.make("sumo", integrator="euler", view="ahead", reward="shaped")
    judged = game.evaluation_game()
    assert (judged.physics.integrator, judged.view, judged.unit) == ("rk4", "ahead", "win")


@pytest.mark.parametrize("reward", ["shaped", "result"])
def test_the_outcome_of_a_match_is_its_payoff_without_shaping(reward):
    rewarded = overtrick.make("sumo", reward=reward, integrator="euler")
    found = play(rewarded, (RANDOM, RANDOM), 12, np.random.default_rng(5))
    plain = overtrick.make("sumo", reward="result", integrator="euler")
    expected = play(plain, (RANDOM, RANDOM), 12, np.random.default_rng(5)).payoff
    assert (expected != 0).any()
    assert np.array_equal(found.outcome, expected)


def test_the_outcome_of_a_match_that_nobody_alone_lost_is_a_draw(game, rng):
    state = game.start(game.deal(4, rng))
    state.position[0, 0] = state.position[1, 15] = state.position[3, 0] = 3  # outside the ring
    state.position[2, [0, 15]] = 3  # both
    state.diverged_games[3] = True
    assert game.outcome(state).tolist() == [[-1, 1], [1, -1], [0, 0], [0, 0]]


def test_matches_end_and_both_ants_act_in_every_step(game, played):
    assert np.isfinite(played.payoff).all()
    batch = played.batch
    for match in range(6):
        steps = [((batch.game == match) & (batch.seat == seat)).sum() for seat in range(2)]
        assert steps[0] == steps[1] <= 501
    for match, seat in np.ndindex(6, 2):
        mine = (batch.game == match) & (batch.seat == seat)
        assert batch.reward[mine].sum() == pytest.approx(played.payoff[match, seat])


def test_a_share_of_shaping_leaves_the_result_and_scales_the_rest(game):
    terms = {"near": 1.5, "out": 4.0}  # terms that RoboSumo does not have
    game = overtrick.make("sumo", reward=terms, integrator="euler", view="ahead_left")
    payoffs, outcomes = zip(
        *(
            (found.payoff, found.outcome)
            for found in (
                play(game.with_shaping(share), (RANDOM, RANDOM), 4, np.random.default_rng(5))
                for share in (0, 0.25, 1)
            )
        ),
        strict=True,
    )
    result, quarter, full = payoffs
    main = overtrick.make("sumo", reward="main", integrator="euler", view="ahead_left")
    expected = play(main, (RANDOM, RANDOM), 4, np.random.default_rng(5)).payoff
    assert np.array_equal(result, expected)
    assert (result != full).all()
    assert quarter == pytest.approx(0.75 * result + 0.25 * full)
    assert all(np.array_equal(outcomes[0], each) for each in outcomes)


def test_position_rewards_do_not_depend_on_the_path():
    """near and out are potentials (Ng et al. 1999): their sum over a match is the last potential
    minus the first."""
    terms = dict.fromkeys(("win", "lose", "draw", "move", "push", "control"), 0.0)
    paid = {
        term: play(
            overtrick.make("sumo", reward={**terms, term: 1.0}),
            (RANDOM, RANDOM), 4, np.random.default_rng(5),
        )
        for term in ("near", "out")
    }  # fmt: skip
    batch = paid["near"].batch
    for match in range(4):
        # the last observation is one step before the end, so its reward is left out
        mine = (batch.game == match) & (batch.seat == 0)
        place = batch.observation[mine][:, [0, 1, 107, 108]].reshape(-1, 2, 2)
        apart = np.linalg.norm(place[:, 0] - place[:, 1], axis=-1)
        assert batch.reward[mine][:-1].sum() == pytest.approx(apart[0] - apart[-1])
        edge = np.abs(place[:, 1]).max(axis=-1)
        reward = paid["out"].batch.reward[mine]
        assert reward[:-1].sum() == pytest.approx(edge[-1] - edge[0])


def test_rewards_of_a_win_and_a_loss_cancel():
    game = overtrick.make("sumo", reward="result")
    payoff = play(game, (RANDOM, RANDOM), 6, np.random.default_rng(2), recorded=[]).payoff
    assert (payoff.sum(axis=1) == 0).all()
    assert payoff.any()
    assert set(payoff.ravel()) <= {-1, 0, 1}
    game = overtrick.make("sumo", reward="wins")
    wins = play(game, (RANDOM, RANDOM), 6, np.random.default_rng(2), recorded=[]).payoff
    assert np.array_equal(wins, payoff.clip(min=0))


def test_a_pickled_game_plays_the_same_with_any_number_of_threads(game):
    twins = [pickle.loads(pickle.dumps(game)), overtrick.make("sumo", threads=2)]

    def after_some_steps(game):
        start = game.start(game.deal(70, np.random.default_rng(1)))
        return after_random_steps(game, start, np.random.default_rng(4))

    for twin in twins:
        assert same(after_some_steps(game), after_some_steps(twin))


def test_selected_matches_are_copies_that_continue_identically(game, rng):
    state = after_random_steps(game, game.start(game.deal(5, rng)), rng)
    before = copy.deepcopy(state)
    rows = np.array([4, 2, 2])
    taken = select_rows(state, rows)
    action = rng.uniform(-1, 1, (5, 2, 8))
    points = game.step(taken, game.observe(taken), action[rows].reshape(-1, 8))
    assert same(state, before)
    assert np.array_equal(
        points, game.step(state, game.observe(state), action.reshape(-1, 8))[rows]
    )
    assert same(taken, select_rows(state, rows))


def test_features_are_a_function_of_each_row(game, played):
    observations = played.batch.observations()
    features = game.features(observations)
    assert features.dtype == np.float32
    assert features.shape == (len(observations), 120)
    assert np.isfinite(features).all()
    some = np.arange(len(observations))[::-7]
    assert np.array_equal(game.features(select_rows(observations, some)), features[some])
    assert np.abs(features).mean() < 2


def test_an_ant_starts_upright_at_the_dealt_position(game, rng):
    deals = game.deal(200, rng)
    state = game.start(deals)
    ants = state.position.reshape(200, 2, 15)
    middle = ants[:, :, :2].mean(axis=1)
    assert np.abs(middle).max() <= 0.1
    apart = np.linalg.norm(ants[:, 0, :2] - ants[:, 1, :2], axis=1)
    assert ((apart > 2) & (apart < 2.6)).all()
    assert np.linalg.norm(ants[..., 3:7], axis=-1) == pytest.approx(1)
    assert (np.abs(ants[..., 7:]) <= 0.1).all()
    assert state.velocity.std() == pytest.approx(0.1, rel=0.05)


def test_an_observation_has_a_description(game, played):
    words = game.describe(played.batch.observation[0])
    assert words.startswith("at (")
    assert "the opponent at (" in words


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"reward": "shapes"}, "unknown reward 'shapes' in sumo: did you mean 'shaped'?"),
        ({"reward": {"wins": 1}}, "unknown reward term 'wins': did you mean 'win'?"),
        ({"integrator": "euler2"}, "integrator must be rk4 or euler, not 'euler2'"),
        ({"forces": "middle"}, "forces must be last or first, not 'middle'"),
        ({"threads": 0}, "threads must be a whole number from 1, not 0"),
        ({"threads": 1.5}, "threads must be a whole number from 1, not 1.5"),
        ({"reward": {"win": "much"}}, "reward.win must be a number, not 'much'"),
        ({"reward": 3}, "reward must be a name or a mapping of terms, not 3"),
        ({"zoo": 5}, "zoo must be a folder, not 5"),
        ({"thread": 2}, "game 'sumo' has no option 'thread': did you mean 'threads'"),
    ],
)
def test_a_wrong_option_is_refused(options, message):
    with pytest.raises(UserError) as error:
        overtrick.make("sumo", **options)
    assert message in str(error.value)


def test_reward_terms_can_be_named_one_by_one():
    reward = overtrick.make("sumo", reward={"move": 2.0}).reward
    assert (reward.move, reward.win) == (2.0, 2000.0)
    terms = {"win": 1, "lose": -1, "draw": 0, "move": 0, "push": 0, "control": 0}
    same = overtrick.make("sumo", reward=terms)
    assert same.portable_options()["reward"] == "result"
    assert same.unit == overtrick.make("sumo", **same.portable_options()).unit == "win"

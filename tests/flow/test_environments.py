"""Our games as environments of other libraries, checked by those libraries' own tests."""

from __future__ import annotations

import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from pettingzoo.test import api_test, parallel_api_test, parallel_seed_test, seed_test

import overtrick
from overtrick.core import END, UserError
from overtrick.environments.gymnasium_env import SingleSeatEnv, single_env
from overtrick.environments.pettingzoo_aec import TurnBasedEnv, aec_env
from overtrick.environments.pettingzoo_parallel import SimultaneousEnv, parallel_env
from overtrick.environments.registration import GAMES
from overtrick.environments.single_game import EngineSingleGame, TreeSingleGame, make_single_game
from overtrick.environments.vector_env import BatchVectorEnv, vector_env
from overtrick.games import registry
from overtrick.games.openspiel_tree import cumulative_gain
from overtrick.games.poker.game import Poker
from overtrick.games.poker.rules import (
    KUHN_THREE,
    LEDUC,
    LEDUC_TEXTBOOK,
    LIMIT_HOLDEM,
    LIMIT_HOLDEM_TEXTBOOK,
)
from overtrick.games.poker.single_game import MAX_DEALT, SinglePokerGame
from overtrick.policies.rollout import play
from overtrick.policies.tabular import TabularPolicy
from overtrick.policies.uniform import UniformPolicy, UniformVectorPolicy
from overtrick.solvers.extensive import best_response


def test_sumo_passes_pettingzoos_own_tests():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parallel_api_test(parallel_env("sumo"), num_cycles=150)
        parallel_seed_test(parallel_env, num_cycles=60)


def test_the_same_actions_give_the_same_points_as_in_play():
    game = overtrick.make("sumo")
    played = play(game, [UniformVectorPolicy(8)] * 2, 1, np.random.default_rng(3))
    env = SimultaneousEnv(game)
    env._rng = np.random.default_rng(3).spawn(3)[0]  # the generator of the deal in `play`
    observed, _ = env.reset()
    batch, total = played.batch, np.zeros(2)
    moves = [batch.action[batch.seat == seat] for seat in (0, 1)]
    watched = [batch.observation[batch.seat == seat] for seat in (0, 1)]
    for step in range(len(moves[0])):
        for seat in (0, 1):
            assert np.array_equal(observed[f"seat_{seat}"], watched[seat][step])
        observed, points, over, cut, _ = env.step({f"seat_{s}": moves[s][step] for s in (0, 1)})
        total += list(points.values())
        assert not any(cut.values())
    assert all(over.values())
    assert not env.agents
    assert total == pytest.approx(played.payoff[0])
    assert env.step({}) == ({}, {}, {}, {}, {})


def test_unsupported_games_and_options_are_refused():
    with pytest.raises(UserError, match="leduc has discrete actions"):
        parallel_env("leduc")
    env = parallel_env()
    env.reset(seed=1)
    with pytest.raises(ValueError, match="actions must be given for"):
        env.step({"seat_0": np.zeros(8)})


@pytest.mark.parametrize("name", ["abstract_holdem", "openspiel/kuhn_poker"])
@pytest.mark.parametrize("environment", [aec_env, parallel_env, single_env])
def test_a_solve_only_game_is_refused_in_every_interface(environment, name):
    with pytest.raises(UserError, match=f"{name} can be solved, but not played"):
        environment(name)
    with pytest.raises(UserError, match=f"{name} can be solved, but not played"):
        SingleSeatEnv(overtrick.make(name), [UniformPolicy()])


def test_an_invalid_real_action_is_an_error():
    env = parallel_env()
    env.reset(seed=1)
    for move in (np.full(8, np.nan), np.zeros(3)):
        with pytest.raises(ValueError, match="the action of seat_1 must be 8 finite numbers"):
            env.step({"seat_0": np.zeros(8), "seat_1": move})
    alone = single_env("sumo", seat=0)
    alone.reset(seed=1)
    for move in (np.full(8, np.nan), np.zeros(3)):
        with pytest.raises(ValueError, match="the action of seat_0 must be 8 finite numbers"):
            alone.step(move)
    assert np.isfinite(alone.step(np.zeros(8))[1])


@pytest.mark.parametrize("action", [-1, 9])
@pytest.mark.parametrize("name", ["leduc", "holdem"])
def test_an_unknown_action_ends_the_game_like_an_illegal_one(name, action):
    turns, single = aec_env(name), single_env(name, seat=0)
    for env in (turns, single):
        with pytest.raises(ValueError, match="no game in progress: call reset"):
            env.step(0)
        env.reset(seed=0)
    agent = turns.agent_selection
    turns.step(action)
    assert turns._cumulative_rewards[agent] == turns.game.lowest_payoff
    assert single.step(action)[1:3] == (single.game.lowest_payoff, True)


SINGLE = [name for name in overtrick.names() if name != "sumo"]  # games with discrete actions
QUICK = {"auction": {"scoring": "nothing"}}  # deals without a double-dummy solver


# PettingZoo warns of dictionaries, which masks need, and of seats yet to act
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SINGLE)
def test_turn_based_games_pass_pettingzoos_own_tests(name):
    options = QUICK.get(name, {})
    api_test(aec_env(name, **options), num_cycles=100)
    seed_test(lambda: aec_env(name, **options), num_cycles=40)


@pytest.mark.filterwarnings("ignore")  # Gymnasium warns of observations without bounds
@pytest.mark.parametrize("name", overtrick.names())
def test_every_game_passes_gymnasiums_own_test(name):
    check_env(single_env(name, **QUICK.get(name, {})), skip_render_check=True)


@pytest.mark.parametrize("name", SINGLE)
def test_an_environment_gives_the_seats_masks_features_and_points_of_its_game(name, sample_deals):
    """Deals and actions are the same in both."""
    game = overtrick.make(name)
    deals = sample_deals(game, 1, np.random.default_rng(7))
    played = play(game, [UniformPolicy()] * game.seats, deals, np.random.default_rng(8))
    batch = played.batch
    features, rows = game.features(batch.observations()), list(range(len(batch)))
    env = TurnBasedEnv(game)
    env.single_game = EngineSingleGame(game)
    env.reset()
    env.single_game.state = game.start(deals)
    env.single_game.update_turn()
    env.update_turn()
    total = dict.fromkeys(env.possible_agents, 0.0)
    for agent in env.agent_iter():
        observed, points, over, cut, _ = env.last()
        total[agent] += points
        assert not cut
        if over:
            assert not observed["action_mask"].any()
            env.step(None)
            continue
        seat = env.possible_agents.index(agent)
        row = next(row for row in rows if batch.seat[row] == seat)
        rows.remove(row)
        assert np.array_equal(observed["observation"], features[row])
        assert np.array_equal(observed["action_mask"], batch.legal[row])
        env.step(int(batch.action[row]))
    assert not rows
    assert list(total.values()) == pytest.approx(played.payoff[0])


@pytest.mark.parametrize(
    "game",
    [
        Poker(LIMIT_HOLDEM),
        Poker(LIMIT_HOLDEM, view="strength"),
        Poker(LIMIT_HOLDEM_TEXTBOOK),
        Poker(LEDUC, fold=False),
        Poker(LEDUC_TEXTBOOK, ranks=9),
        Poker(KUHN_THREE),
    ],
    ids=lambda game: f"{game.name}-{game.view}",
)
def test_table_lookup_steps_equal_the_engines(game, rng):
    """With equal generators, deals have the same order, and every step has the same result."""
    quick, engine = make_single_game(game), EngineSingleGame(game)
    assert isinstance(quick, SinglePokerGame)
    for seed in (1, 2):
        ours, theirs = np.random.default_rng(seed), np.random.default_rng(seed)
        for _ in range(2 * MAX_DEALT):
            quick.begin(ours)
            engine.begin(theirs)
            while engine.seat >= 0:
                assert quick.seat == engine.seat
                assert np.array_equal(quick.legal, engine.legal)
                assert np.array_equal(quick.observation, engine.observation)
                for name in ("game", "seat", "observation", "legal"):
                    mine, its = (
                        getattr(quick.observations, name),
                        getattr(engine.observations, name),
                    )
                    assert mine.dtype == its.dtype
                    assert np.array_equal(mine, its)
                action = int(rng.choice(np.flatnonzero(engine.legal)))
                assert quick.act(action) == engine.act(action)
            assert quick.seat == engine.seat
        with pytest.raises(KeyError):
            quick.act(0)


def test_holdem_uses_table_lookup_in_both_interfaces():
    assert isinstance(aec_env("holdem").single_game, SinglePokerGame)
    assert isinstance(single_env("holdem").single_game, SinglePokerGame)


@pytest.mark.parametrize("name", ["brps", "kuhn", "kuhn_three", "one_card", "leduc"])
def test_games_on_their_tree_end_with_the_probabilities_of_the_tree(
    name, game_and_tree, rng, chi_square_p
):
    game, tree = game_and_tree(name)
    walked, uniform = make_single_game(game), tree.uniform()
    assert isinstance(walked, TreeSingleGame)
    reach = np.ones(tree.nodes)
    for node in range(1, tree.nodes):
        above = tree.parent[node]
        acts = tree.seat[above] >= 0
        taken = uniform[tree.infoset[above], tree.edge[node]] if acts else 1.0
        reach[node] = reach[above] * tree.chance[node] * taken
    payoffs = cumulative_gain(tree)
    ends = np.flatnonzero(tree.seat == END)
    counts = np.zeros(tree.nodes)
    for _ in range(3_000):
        walked.begin(rng)
        points = np.zeros(game.seats)
        while walked.seat >= 0:
            assert walked.seat == tree.seat[walked._node]
            points += walked.act(int(rng.choice(np.flatnonzero(walked.legal))))
        assert points == pytest.approx(payoffs[walked._node])
        counts[walked._node] += 1
    rare = reach[ends] * 3_000 < 5  # pooled, as the chi-square test requires
    observed = np.append(counts[ends][~rare], counts[ends][rare].sum())
    assert chi_square_p(observed, np.append(reach[ends][~rare], reach[ends][rare].sum())) > 1e-3


@pytest.mark.parametrize("name", SINGLE)
def test_no_payoff_is_below_the_lowest_payoff(name, sample_deals, rng):
    game = overtrick.make(name)
    payoff = play(game, [UniformPolicy()] * game.seats, sample_deals(game, 300, rng), rng).payoff
    assert game.lowest_payoff <= payoff.min()


@pytest.mark.parametrize("name", ["leduc", "leduc_textbook", "holdem", "minibridge", "auction"])
def test_an_illegal_action_ends_the_game_with_the_lowest_payoff(name):
    game = overtrick.make(name)
    turns = TurnBasedEnv(game)
    turns.reset(seed=0)
    agent, observed = turns.agent_selection, turns.last()[0]
    turns.step(int(np.flatnonzero(observed["action_mask"] == 0)[0]))
    assert turns._cumulative_rewards == {a: game.lowest_payoff * (a == agent) for a in turns.agents}
    assert all(turns.terminations.values())
    single = SingleSeatEnv(game, [UniformPolicy()], seat=0)
    _, info = single.reset(seed=0)
    _, points, over, *_ = single.step(int(np.flatnonzero(info["action_mask"] == 0)[0]))
    assert (points, over) == (game.lowest_payoff, True)
    with pytest.raises(ValueError, match="no game in progress"):
        single.step(0)


def test_the_payoff_of_one_seat_equals_the_trees_value(game_and_tree, random_strategy, rng):
    """The opponent is drawn from two policies, each in half of the games."""
    game, tree = game_and_tree("kuhn")
    mine, *theirs = (random_strategy(tree, rng) for _ in range(3))
    env = SingleSeatEnv(game, [TabularPolicy(sigma) for sigma in theirs], seat=1)
    player = TabularPolicy(mine).start(1, rng)
    won, games = [], 3_000
    env.reset(seed=4)
    for _ in range(games):
        env.reset()
        total, over = 0.0, False
        while not over:
            _, points, over, _, _ = env.step(player.act(env.single_game.observations).action[0])
            total += points
        won.append(total)
    seat = (tree.observations.seat == 1)[:, None]
    wanted = np.mean(
        [best_response.expected(tree, np.where(seat, mine, each))[1] for each in theirs]
    )
    assert abs(np.mean(won) - wanted) < 4 * np.std(won) / np.sqrt(games)
    with pytest.raises(UserError, match="kuhn has seats 0 to 1, not 2"):
        SingleSeatEnv(game, [UniformPolicy()], seat=2)


def random_actions(info, rng):
    """Return a random legal action of each game of a vector environment."""
    return (rng.random(info["action_mask"].shape) * info["action_mask"]).argmax(axis=1)


def test_gymnasium_makes_every_game_by_name():
    assert set(GAMES) == set(overtrick.names())
    one = gymnasium.make("overtrick/kuhn-three-v0", seat=2)
    assert (one.unwrapped.game.name, one.reset(seed=0)[1]["seat"]) == ("kuhn_three", 2)
    many = gymnasium.make_vec("overtrick/leduc-v0", num_envs=7, fold=False)
    assert (len(many.reset(seed=0)[0]), many.game.fold) == (7, False)


@pytest.mark.parametrize("name", [each for each in overtrick.names() if each != "auction"])
def test_games_of_a_vector_environment_are_games_of_the_engine(name, rng):
    """Without the auction, whose deals are solved double dummy at the end of each game."""
    env = vector_env(name, 40)
    observation, info = env.reset(seed=5)
    again, _ = env.reset(seed=5)
    assert np.array_equal(observation, again)
    assert env.observation_space.contains(observation)
    finished = np.zeros(40, int)
    for _ in range(12):
        if env.game.actions is None:
            actions = rng.uniform(-1, 1, env.action_space.shape)
        else:
            actions = random_actions(info, rng)
            assert info["action_mask"].any(axis=1).all()
        observation, reward, terminated, truncated, info = env.step(actions)
        assert (observation.shape, reward.shape) == (env.observation_space.shape, (40,))
        assert not truncated.any()
        assert ("final_obs" in info) == ("final_info" in info) == terminated.any()
        finished += terminated
    assert finished.all() or name in (
        "minibridge",
        "bridge",
        "sumo",
        "liars_dice",
        "holdem",
    )


def test_the_payoff_of_one_seat_in_a_vector_environment_equals_the_trees_value(
    game_and_tree, random_strategy, rng
):
    """The opponent is drawn from two policies, each in half of the games."""
    game, tree = game_and_tree("kuhn")
    mine, *theirs = (random_strategy(tree, rng) for _ in range(3))
    env = BatchVectorEnv(game, 500, [TabularPolicy(sigma) for sigma in theirs], seat=1)
    player = TabularPolicy(mine).start(500, rng)
    env.reset(seed=4)
    won, total = [], np.zeros(500)
    while len(won) < 20_000:
        order = env.decisions.game.argsort()
        _, reward, terminated, _, info = env.step(player.act(env.decisions).action[order])
        assert "final_info" not in info or (info["final_info"]["seat"] == 1).all()
        total += reward
        won.extend(total[terminated])
        total[terminated] = 0
    seat = (tree.observations.seat == 1)[:, None]
    wanted = np.mean(
        [best_response.expected(tree, np.where(seat, mine, each))[1] for each in theirs]
    )
    assert abs(np.mean(won) - wanted) < 4 * np.std(won) / np.sqrt(len(won))


@pytest.mark.parametrize("name", ["leduc", "holdem", "brps"])
def test_an_illegal_action_ends_only_its_game_of_a_vector_environment(name, rng):
    env = vector_env(name, 6)
    _, info = env.reset(seed=1)
    actions = random_actions(info, rng)
    actions[2], actions[4] = -1, env.game.actions
    _, reward, terminated, *_ = env.step(actions)
    assert reward[[2, 4]].tolist() == [env.game.lowest_payoff] * 2
    assert terminated[[2, 4]].all()
    assert (reward >= env.game.lowest_payoff).all()


@pytest.mark.parametrize("name", ["kuhn", "holdem", "minibridge"])
def test_environments_render_the_observation_of_the_seat_to_act(name):
    shown = registry.presentation(overtrick.make(name))
    env, played = aec_env(name, render_mode="ansi"), []
    env.reset(seed=3)
    while not any(env.terminations.values()):
        game = env.single_game
        (observation,) = game.observations.observation
        assert env.render() == shown.describe_observation(observation, played)
        action = int(np.flatnonzero(game.legal)[-1])
        played.append((game.seat, action))
        env.step(action)
    assert env.render().count("seat ") == len(played)
    assert aec_env(name).render() is None


def test_a_seat_renders_its_own_observation_and_the_whole_game_at_its_end():
    env = gymnasium.make("overtrick/kuhn-v0", seat=1, render_mode="ansi")
    env.reset(seed=1)
    first = env.render()
    assert "you hold" in first
    assert "round 1: seat 1" in first
    env.step(0)  # it passes, which ends the game or lets the other seat call
    assert env.render().startswith("seat 1 ")
    turns = aec_env("kuhn", "ansi")
    turns.reset(seed=1)
    for action in (0, 5):  # the second is illegal, which ends the game
        turns.step(action)
    assert turns.render() == "seat 1 pass"
    env.reset(seed=1)
    env.step(5)
    assert env.render() == "seat 1 pass"
    with pytest.raises(UserError, match="render_mode must be ansi or None, not 'human'"):
        single_env("kuhn", render_mode="human")
    with pytest.raises(UserError, match="sumo has no text"):
        single_env("sumo", render_mode="ansi")


def test_wrong_arguments_of_a_vector_environment_are_refused():
    with pytest.raises(UserError, match="kuhn has seats 0 to 1, not 2"):
        vector_env("kuhn", 2, seat=2)
    env = vector_env("kuhn", 2)
    with pytest.raises(ValueError, match="no game in progress: call reset"):
        env.step(np.zeros(2, int))
    env.reset(seed=0)
    with pytest.raises(ValueError, match="actions must be integers, not float64"):
        env.step(np.zeros(2))
    env = vector_env("sumo", 2)
    env.reset(seed=0)
    for wrong in (np.zeros((2, 7)), np.full((2, 8), np.nan)):
        with pytest.raises(ValueError, match=r"must be finite numbers of shape \(2, 8\)"):
            env.step(wrong)

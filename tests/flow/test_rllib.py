"""RLlib: our games as multi-agent environments, our policies as agents, and its algorithms in a
job."""

from __future__ import annotations

import itertools
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from ray.rllib.algorithms.ppo import PPOConfig
from tests.rounding import assert_float32_close

from overtrick import make
from overtrick.config import job_file
from overtrick.core import UserError, select_rows
from overtrick.distributed.workers import LocalPool
from overtrick.evaluation.game_cache import cached_opponent
from overtrick.games import observation_validation, registry
from overtrick.games.sumo import agent_zoo
from overtrick.policies.memoryless import MemorylessPolicy
from overtrick.policies.rollout import play
from overtrick.rllib.algorithm_config import (
    MultiAgentSetup,
    algorithm_config,
    past_self_module,
    self_play_config,
)
from overtrick.rllib.multi_agent_env import (
    ACTION_MASK,
    FEATURES,
    MATCH,
    OBSERVATION,
    GameEnv,
    action_space,
    observation_space,
)
from overtrick.rllib.rl_modules import (
    POLICY_NETWORKS,
    FixedPolicyModule,
    MaskedActorCritic,
    MaskedDqn,
)
from overtrick.solvers.extensive import best_response
from overtrick.solvers.extensive.tree import build
from overtrick.storage import model_files
from overtrick.training.registry import JOBS, TRAINERS
from overtrick.training.rllib.rllib_job import RllibDqnConfig, RllibPpoConfig
from overtrick.training.rllib.rllib_trainer import mean_game_length

FEW = {"opponents": ["call"], "every": 2}
JOB: dict[str, Any] = {
    "trainer": "rllib",
    "game": "leduc",
    "seed": 3,
    "stop": {"iterations": 4},
    "rllib": {"env_steps": 60, "hidden": [8]},
    "ppo": {"minibatch_size": 30, "epochs": 2},
    "evaluate": FEW,
}
MEMORY = {"gradient_steps": 2, "batch_size": 8, "learning_starts": 20}


def job_of(**more: Any) -> Any:
    return job_file.parse({**JOB, **more}, JOBS, "job.yaml")


def stepped(job):
    """Train one iteration. Return the state before it, its metrics, and the state and the model
    after it."""
    page = TRAINERS["rllib"]
    page.validate(job)
    trainer = page.trainer(job, LocalPool())
    before, metrics = trainer.state(), trainer.step()
    state, last_model = trainer.state(), trainer.model()
    trainer.close()
    return before, metrics, state, last_model


def legal_action(observed, rng):
    """Return any legal action."""
    return int(rng.choice(np.flatnonzero(observed[ACTION_MASK])))


def test_ppo_of_rllib_learns_a_game_by_its_name(local_ray, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = PPOConfig().env_runners(num_env_runners=0).training(train_batch_size_per_learner=200)
    algorithm = self_play_config(config, "leduc").build_algo()
    try:
        before = algorithm.get_state(components="learner_group")
        result = algorithm.train()
        after = algorithm.get_state(components="learner_group")
    finally:
        algorithm.stop()
    assert result["env_runners"]["num_episodes_lifetime"] > 10
    assert repr(before) != repr(after)
    with pytest.raises(UserError, match="unknown game 'leduk': did you mean 'leduc'"):
        self_play_config(PPOConfig(), "leduk")


def test_every_seat_is_an_agent_and_receives_its_rewards(rng):
    env = GameEnv({"game": "minibridge", "options": {"seats": 4}, "seed": 1})
    observed, _ = env.reset(seed=2)
    total, turns, over = dict.fromkeys("0123", 0.0), 0, False
    while not over:
        ((agent, observation),) = observed.items()
        assert env.observation_spaces[agent].contains(observation)
        observed, gained, ends, _, _ = env.step({agent: legal_action(observation, rng)})
        assert agent in gained
        for each, points in gained.items():
            total[each] += points
        over, turns = ends["__all__"], turns + 1
    assert turns == 52
    assert total["0"] == total["2"] == -total["1"] == -total["3"]
    assert abs(total["0"]) == 1


def test_fixed_policies_hold_all_seats_but_one_in_their_share_of_games():
    about = {
        "game": "kuhn_three",
        "options": {},
        "seed": 1,
        "opponents": ["a", "b"],
        "opponent_share": 0.6,
    }
    env, opponents_met = GameEnv(about), []
    for _ in range(600):
        env.reset()
        assert [agent[0] for agent in env.agents] == ["0", "1", "2"]
        fixed_seats = {agent[2:] for agent in env.agents} - {""}
        assert len(fixed_seats) <= 1
        learns = [agent for agent in env.agents if len(agent) == 1]
        assert len(learns) == (1 if fixed_seats else 3)
        opponents_met += [(*fixed_seats, learns[0])] if fixed_seats else [()]
    assert np.mean([bool(each) for each in opponents_met]) == pytest.approx(0.6, abs=0.08)
    counts = np.unique([f"{each}" for each in opponents_met if each], return_counts=True)[1]
    assert len(counts) == 6
    assert counts.min() > 30  # 60 are expected


@pytest.mark.parametrize("game", ["brps", "sumo"])
def test_seats_that_act_simultaneously_are_agents_of_one_step(game, rng):
    options = {"integrator": "euler"} if game == "sumo" else {}
    settings = {"opponents": ["a"], "raw": True, "opponent_share": 1.0}
    env = GameEnv({"game": game, "options": options, "seed": 1, **settings})
    observed, _ = env.reset()
    assert {agent[0] for agent in observed} == {"0", "1"}
    assert [OBSERVATION in each for each in observed.values()] == [
        " a" in agent for agent in observed
    ]
    gained: dict[str, float] = dict.fromkeys(observed, 0.0)
    over = False
    for _ in range(3):
        assert all(env.observation_spaces[agent].contains(each) for agent, each in observed.items())
        moves = {agent: env.action_spaces[agent].sample() for agent in observed}
        observed, points, ends, _, _ = env.step(moves)
        over = ends["__all__"]
        gained = {agent: gained[agent] + points[agent] for agent in gained}
        if over:
            break
    assert over == (game == "brps")
    assert all(np.isfinite(list(gained.values())))


def test_a_policy_as_an_agent_plays_as_in_our_rollouts():
    choice = job_file.GameChoice(name="leduc", options=registry.portable_options("leduc", {}))
    game, tree = make("leduc"), build(make("leduc"))
    settings = {
        "game": "leduc",
        "options": {},
        "make": partial(cached_opponent, choice, "cfr"),
        "seed": 1,
    }
    module = FixedPolicyModule(
        observation_space=observation_space(game, True),
        action_space=action_space(game),
        model_config=settings,
    )
    observations_in = torch.from_numpy(
        np.repeat(tree.observations.observation.astype(np.int64), 400, axis=0)
    )
    drawn = (
        module._forward({"obs": {OBSERVATION: observations_in}})["actions"].numpy().reshape(-1, 400)
    )
    shares = np.stack([(drawn == action).mean(axis=1) for action in range(4)], axis=1)
    sigma = cached_opponent(choice, "cfr").probs(tree.observations)
    assert np.abs(shares - sigma).max() < 0.12  # 4.8 standard errors
    assert not shares[sigma == 0].any()


class FirstLegalCard(MemorylessPolicy):
    """Policy that plays the first legal card, which depends on the order of suits."""

    def probs(self, observations):
        return np.eye(observations.legal.shape[1])[observations.legal.argmax(axis=1)]


def test_a_fixed_policy_observes_true_suits_and_acts_in_the_renamed_ones():
    settings = {
        "game": "minibridge",
        "options": {"scoring": "tricks"},
        "seed": 1,
        "canonical": True,
    }
    env, clubs = GameEnv(settings), FirstLegalCard()
    about = {
        "observation_space": observation_space(env.game, True),
        "action_space": action_space(env.game),
    }
    fixed_policy = FixedPolicyModule(**about, model_config={**settings, "make": lambda: clubs})
    for seed in range(3):
        observed, _ = env.reset(seed=seed)
        gained, over = dict.fromkeys("01", 0.0), False
        while not over:
            ((agent, observation),) = observed.items()
            observations_in = torch.from_numpy(env._observations.observation)
            card = fixed_policy._forward({"obs": {OBSERVATION: observations_in}})[
                "actions"
            ].numpy()[0]
            assert observation[ACTION_MASK][card]
            observed, points, ends, _, _ = env.step({agent: card})
            gained, over = {k: gained[k] + points.get(k, 0.0) for k in gained}, ends["__all__"]
        deals = env.game.deal(1, np.random.default_rng(seed))
        whole = play(env.game, (clubs, clubs), deals, np.random.default_rng(0)).payoff[0]
        assert list(gained.values()) == whole.tolist()


def test_a_fixed_policy_has_one_memory_for_each_match(rng):
    game = make("sumo", integrator="euler")
    numbers = {n: rng.normal(size=shape) for n, shape in agent_zoo.SHAPES["lstm"].items()}
    numbers |= {name: np.ones_like(numbers[name]) for name in ("count", "squares")}
    ant = agent_zoo.ZooPolicy("lstm", numbers, sample=False)
    settings = {"game": "sumo", "options": {"integrator": "euler"}, "make": lambda: ant, "seed": 1}
    about = {"observation_space": observation_space(game, True), "action_space": action_space(game)}
    module = FixedPolicyModule(**about, model_config=settings)
    observations_in = rng.normal(size=(3, 2, len(game.observation_fields)))

    def moves(step, matches):
        settings = {
            OBSERVATION: observations_in[step],
            MATCH: np.stack([np.arange(2), matches], axis=1),
        }
        return module._forward({"obs": {n: torch.from_numpy(v) for n, v in settings.items()}})[
            "actions"
        ].numpy()

    both, other = ant.start(2, rng), ant.start(1, rng)
    rows = [observation_validation.validated_observations(game, each) for each in observations_in]
    for step in range(2):
        assert_float32_close(moves(step, [1, 1]), both.act(rows[step]).action)
    later = moves(2, [2, 1])  # the next match begins at table 0
    assert_float32_close(later[:1], other.act(select_rows(rows[2], np.array([0]))).action)
    went_on = both.act(rows[2]).action
    assert_float32_close(later[1], went_on[1])
    assert not np.allclose(later[0], went_on[0])


def test_three_seats_learn_and_their_payoffs_are_exact(local_ray):
    job = job_of(
        game="kuhn_three",
        stop={"iterations": 1},
        population={"past_selves": 1, "opponents": ["random"]},
        evaluate={"opponents": ["random"]},
    )
    before, metrics, state, last_model = stepped(job)
    weights = "rllib.module.learner.policy.0.weight"
    assert not np.array_equal(state[weights], before[weights])
    game, tree = make("kuhn_three"), build(make("kuhn_three"))
    theirs = module_probabilities(
        MaskedActorCritic, game, tree.observations, state, "learner"
    ).astype(float)
    theirs /= theirs.sum(axis=1, keepdims=True)
    gap = best_response.exploitability(tree, theirs)
    assert_float32_close(metrics["exploitability_chip/policy"], gap)
    won = 0.0
    for seat in range(3):  # opponents in both other seats
        sigma = np.where((tree.observations.seat == seat)[:, None], theirs, tree.uniform())
        won += best_response.expected(tree, sigma)[seat] / 3
    assert_float32_close(metrics["random/after_0_chip"], won)
    (row,) = TRAINERS["rllib"].evaluate_model(
        job, last_model, LocalPool(), np.random.default_rng(0)
    )
    assert row["best_response"] > row["steps"][0]


def module_probabilities(kind, game, observations, state, name):
    """Return (R, A) the action probabilities of an RLlib module with a trainer's state."""
    about = {
        "observation_space": observation_space(game, False),
        "action_space": action_space(game),
    }
    module = kind(**about, model_config={"hidden": (8,), "double_q": True, "epsilon": 0.0})
    start = f"rllib.module.{name}."
    module.set_state({n.removeprefix(start): v for n, v in state.items() if n.startswith(start)})
    observed = {
        FEATURES: game.features(observations),
        ACTION_MASK: observations.legal.astype(np.float32),
    }
    batch = {"obs": {n: torch.from_numpy(v) for n, v in observed.items()}}
    if kind is MaskedDqn:
        return module.compute_q_values(batch)["qf_preds"].detach().numpy()
    return module._forward(batch)["action_dist_inputs"].softmax(dim=1).detach().numpy()


def test_ppo_trains_one_module_past_selves_are_fixed_and_a_run_resumes(local_ray, tmp_path):
    job = job_of(
        rllib={**JOB["rllib"], "networks": "seat"},
        population={
            "past_selves": 1,
            "snapshot_interval": 2,
            "opponents": ["call"],
            "opponent_share": 0.5,
        },
    )
    page = TRAINERS["rllib"]
    page.validate(job)
    trainer = page.trainer(job, LocalPool())
    first = trainer.step()
    begun = trainer.state()
    second = trainer.step()
    state = trainer.state()
    assert 60 <= first["turns"] < second["turns"]
    assert second["games"] > first["games"] > 0
    assert set(second) - set(first) == {"exploitability_big_blind/policy", "call/after_0_big_blind"}
    for name in ("seat_0", "seat_1"):  # the second iteration renewed the past self
        for at, same in ((begun, False), (state, True)):
            now = at[f"rllib.module.{name}.policy.0.weight"]
            past = at[f"rllib.module.{past_self_module('past_0', name)}.policy.0.weight"]
            assert np.array_equal(now, past) == same
    trainer.close()

    again = page.trainer(job, LocalPool())
    again.load(begun)
    assert again.step() == second
    assert set(again.state()) == set(state)
    assert all(np.array_equal(value, state[name]) for name, value in again.state().items())
    again.close()

    last_model = page.trainer(job, LocalPool())  # as a run stores its model: no actor is running
    last_model.load(state)
    model_files.save(
        model_files.Model(last_model.model(), "leduc", job.model_dump(mode="json")),
        tmp_path / "model",
    )
    game, tree = make("leduc"), build(make("leduc"))
    played = model_files.policy(tmp_path / "model", game)
    for seat in range(2):
        theirs = module_probabilities(
            MaskedActorCritic, game, tree.observations, state, f"seat_{seat}"
        )
        mine = tree.observations.seat == seat
        assert theirs[~tree.observations.legal].max() == 0
        assert_float32_close(played.probs(tree.observations)[mine], theirs[mine])
    gap = best_response.exploitability(tree, best_response.sigma_of(tree, [played] * 2))
    assert gap == pytest.approx(second["exploitability_big_blind/policy"], abs=1e-9)


def setup_of(algorithm, **own):
    """Return a small algorithm configuration for Leduc."""
    return MultiAgentSetup(
        algorithm=algorithm, game="leduc", options={}, seats=2, canonical=False, seed=0, workers=0,
        cpus=1, gpus=0, env_steps=60, game_length=4, hidden=(8,), learning_rate=0.01, discount=1,
        by_seat=False, past_selves=0, opponents=(), opponent_share=0, section=own,
    )  # fmt: skip


def test_the_weight_of_the_critic_loss_is_explicit_and_gradients_are_not_clipped():
    ppo, dqn = (
        algorithm_config(setup_of("PPO", **RllibPpoConfig().model_dump())),
        RllibDqnConfig().model_dump(),
    )
    appo = algorithm_config(setup_of("APPO", **RllibPpoConfig().model_dump()))
    assert ppo.lambda_ == RllibPpoConfig().gae_lambda
    assert (ppo.vf_loss_coeff, appo.vf_loss_coeff) == (0.5, 2 * 0.5)  # of half the squared error
    assert [each.grad_clip for each in (ppo, appo, algorithm_config(setup_of("DQN", **dqn)))] == [
        None
    ] * 3


def test_dqn_resumes_from_a_state_with_its_replay_buffer(local_ray):
    job = job_of(
        algorithm="rllib/DQN",
        game="kuhn_three",
        rllib={"env_steps": 30, "hidden": [4]},
        dqn={
            **MEMORY,
            "learning_starts": 4,
            "target_update_interval": 40,
            "replay_capacity": 50,
        },  # some are overwritten
        ppo={},
        population={"opponents": ["random"]},
        evaluate={**FEW, "every": 9},
    )
    page = TRAINERS["rllib"]
    trainer = page.trainer(job, LocalPool())
    before = trainer.state()
    metrics = trainer.step()
    begun = trainer.state()
    assert not Path(trainer._runner.algorithm.logdir).exists()  # in the user's home
    assert np.isfinite(metrics["loss"])
    weights = "rllib.module.learner.af.0.weight"
    assert not np.array_equal(begun[weights], before[weights])
    assert 30 <= begun["rllib.memory.turns"].sum() <= 50
    later = [(trainer.step(), trainer.state()) for _ in range(2)]
    assert later[0][1]["rllib.memory.turns"].sum() <= 50

    again = page.trainer(job, LocalPool())
    again.load(begun)
    for settings, state in later:
        assert again.step()["turns"] == settings["turns"]
        now = again.state()
        assert set(now) == set(state)
        assert [n for n, value in now.items() if not np.array_equal(value, state[n])] == []
    again.close()

    trainer.load(before)
    assert np.array_equal(trainer.state()[weights], before[weights])
    assert trainer.step()["turns"] == metrics["turns"]
    assert trainer.iteration == 1
    trainer.close()


def trained_once(name, **more):
    """Train a tiny iteration on a game; return the game, the state, the model, and the metrics."""
    game = make(name, **more.get("options", {}))
    job = job_file.parse(
        {
            **{k: v for k, v in JOB.items() if k != "ppo"},
            **({} if "dqn" in more else {"ppo": {"minibatch_size": 20, "epochs": 1}}),
            **{k: v for k, v in more.items() if k != "options"},
            "game": {"name": name, **more.get("options", {})},
            "stop": {"iterations": 1},
            "rllib": {"env_steps": 40, "hidden": [8]},
            "evaluate": {"opponents": ["random"], "eval_deals": 2},
        },
        JOBS,
        "job.yaml",
    )
    before, metrics, state, last_model = stepped(job)
    start = f"rllib.module.learner.{POLICY_NETWORKS[job.name]}"
    learnt = [name for name in state if name.startswith(start)]
    assert any(not np.array_equal(state[name], before[name]) for name in learnt)
    assert any(name.startswith("random/after_0") for name in metrics)
    return game, state, model_files.Model(last_model, name, job.model_dump(mode="json"))


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name == "minibridge" else pytest.mark.slow)
        for name in registry.names()
    ],
)
def test_every_game_can_be_trained_in_all_its_seats(name, local_ray, tmp_path, rng):
    options = {"seats": 4} if name == "minibridge" else {}
    game, state, last_model = trained_once(
        name, options=options, population={"opponents": ["random"]}
    )
    model_files.save(last_model, tmp_path / "model")
    policy = model_files.policy(tmp_path / "model", game)
    played = play(game, (policy,) * game.seats, 2, rng)
    assert played.payoff.shape == (2, game.seats)
    assert np.isfinite(played.payoff).all()
    if game.actions is not None:
        observations = played.batch.observations()
        theirs = module_probabilities(MaskedActorCritic, game, observations, state, "learner")
        assert_float32_close(policy.probs(observations), theirs)


def test_dqn_trains_on_the_renamed_suits_that_its_model_plays(local_ray, tmp_path, rng):
    game, state, last_model = trained_once(
        "minibridge",
        options={"seats": 4},
        algorithm="rllib/DQN",
        dqn={**MEMORY, "learning_starts": 4},
    )
    model_files.save(last_model, tmp_path / "model")
    policy = model_files.policy(tmp_path / "model", game)
    observations = play(game, (policy,) * 4, 2, rng).batch.observations()
    shown, own = game.canonical_observations(observations)
    best = module_probabilities(MaskedDqn, game, shown, state, "learner").argmax(axis=1)
    assert (own != np.arange(52)).any()
    assert (
        policy.probs(observations)[
            np.arange(len(observations)), own[np.arange(len(observations)), best]
        ]
        == 1
    ).all()


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("algorithm", ["APPO", "DQN", "PPO", "SAC"])
def test_every_algorithm_learns_and_its_model_plays(algorithm, workers, local_ray, tmp_path):
    own = {"dqn": MEMORY} if algorithm == "DQN" else {"sac": MEMORY} if algorithm == "SAC" else {}
    moves = {"game": {"name": "sumo", "integrator": "euler"}}
    opponent = "motionless" if algorithm == "SAC" else "call"
    job = job_file.parse(
        {
            **{k: v for k, v in JOB.items() if k != "ppo"},
            **own,
            **(moves if algorithm == "SAC" else {}),
            "algorithm": f"rllib/{algorithm}",
            "workers": workers,
            "population": {"past_selves": 1, "snapshot_interval": 2, "opponents": [opponent]},
            "evaluate": {"opponents": [opponent], "every": 4, "eval_deals": 2},
            **({} if own else {"ppo": JOB["ppo"]}),
        },
        JOBS,
        "job.yaml",
    )
    page = TRAINERS["rllib"]
    page.validate(job)
    trainer = page.trainer(job, LocalPool())
    states = [trainer.state()]
    for _ in range(3):
        metrics = trainer.step()
        states.append(trainer.state())
    state = states[-1]
    weights = [name for name in state if name.split(".")[3:4] == [POLICY_NETWORKS[algorithm]]]
    for k, (old, new) in enumerate(itertools.pairwise(states)):
        changed = {n.split(".")[2] for n in weights if not np.array_equal(new[n], old[n])}
        assert "learner" in changed
        assert ("past_0_learner" in changed) == (k == 1)
    assert np.isfinite(metrics["loss"])
    if algorithm != "APPO":  # the trainer continues to learn
        trainer.load(state)
        assert all(np.array_equal(value, state[name]) for name, value in trainer.state().items())
    model_files.save(
        model_files.Model(trainer.model(), job.game.name, job.model_dump(mode="json")),
        tmp_path / "model",
    )
    game = make(job.game.name, **job.game.options)
    played = model_files.policy(tmp_path / "model", game)
    assert np.isfinite(play(game, (played, played), 2, np.random.default_rng(0)).payoff).all()
    trainer.close()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"algorithm": "rllib/DQN"},
            "ppo has no effect with algorithm rllib/DQN: leave it out, or set ppo={}",
        ),
        (
            {"algorithm": "rllib/APPO", "ppo": {"gae_lambda": 0.9}},
            "ppo.gae_lambda has no effect with algorithm rllib/APPO",
        ),
        ({"population": {"snapshot_interval": 3}}, "population.snapshot_interval has no effect"),
        ({"population": {"opponent_share": 0.1}}, "population.opponent_share has no effect"),
        (
            {"population": {"opponents": ["random"], "opponent_share": 0}},
            "population.opponents has no effect without population.opponent_share",
        ),
        (
            {"algorithm": "rllib/SAC", "ppo": {}},
            "leduc has discrete actions: set algorithm to rllib/PPO, rllib/APPO or rllib/DQN",
        ),
        (
            {"game": "sumo", "algorithm": "rllib/DQN", "ppo": {}},
            "sumo has continuous actions: set algorithm to rllib/PPO, rllib/APPO or rllib/SAC",
        ),
        ({"algorithm": "rllib/TD3"}, "algorithm"),
        ({"population": {"opponents": ["nobody"]}}, "unknown opponent 'nobody'"),
        ({"rllib": {"env_steps": 20}}, "ppo.minibatch_size is more than rllib.env_steps"),
        ({"game": "openspiel/kuhn_poker"}, "can be solved, but not played"),
        ({"game": "kuhn_three", "evaluate": {**FEW, "exploitability_bound": 0.1}}, "needs 2 seats"),
    ],
)
def test_unsupported_jobs_are_refused_with_the_remedy(change, message):
    with pytest.raises(UserError, match=message):
        TRAINERS["rllib"].validate(job_of(**change))


@pytest.mark.parametrize(("name", "steps"), [("goofspiel", 5), ("brps", 1), ("minibridge", 52)])
def test_seats_that_act_together_share_a_step_of_the_environment(name, steps, rng):
    assert mean_game_length(registry.make(name), rng) == steps


@pytest.mark.slow
def test_rllib_trains_responses_of_psro_without_a_tree(two_workers):
    """The mixture remembers its network of each game; actions are discrete."""
    content = {
        "trainer": "psro", "game": "holdem",
        "psro": {"oracle": "rllib/PPO", "payoff_games": 20},
        "rllib": {"iterations": 1, "env_steps": 300, "hidden": [8]},
        "evaluate": {"every": 9},
    }  # fmt: skip
    job = job_file.parse(content, JOBS, "this test")
    trainer = TRAINERS["psro"].trainer(job, two_workers)
    assert [trainer.step()["policies"] for _ in range(2)] == [2, 3]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["PPO", "DQN"])
def test_rllib_trains_responses_of_psro_in_this_process_and_on_workers(name, two_workers):
    rllib = {"iterations": 4, "env_steps": 600, "hidden": [16], "learning_rate": 0.01}
    content = {
        "trainer": "psro", "game": "kuhn", "psro": {"oracle": f"rllib/{name}"}, "rllib": rllib,
        "evaluate": {"every": 9},
    }  # fmt: skip
    job = job_file.parse(content, JOBS, "this test")
    for pool in (LocalPool(), two_workers):
        trainer = TRAINERS["psro"].trainer(job, pool)
        trainer.step()
        assert trainer.step()["nash_conv"] < 0.9  # uniform play has 0.917

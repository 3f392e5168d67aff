"""Compare exploitability on Leduc: RLlib's PPO in self-play beside our PPO with the same networks
and steps, neural fictitious self-play and MCCFR, after equal games and after equal CPU seconds.
Each plays and learns in one process."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from tests.bench.measure import Result

from overtrick import make
from overtrick.config import job_file
from overtrick.core.checkpoints import unprefixed
from overtrick.distributed.workers import LocalPool, start_ray
from overtrick.learners.critic import Critic
from overtrick.learners.initialisation import initial_policy_weights
from overtrick.learners.policy_gradient.actor_critic import ActorCritic
from overtrick.learners.policy_gradient.ppo import Ppo
from overtrick.policies.network import NetworkPolicy
from overtrick.policies.network_sizes import input_size
from overtrick.policies.rollout import play
from overtrick.policies.tabular import TabularPolicy
from overtrick.solvers import mccfr
from overtrick.solvers.extensive import best_response
from overtrick.solvers.extensive.tree import build
from overtrick.training.registry import JOBS, TRAINERS

FOLDER = Path(__file__).parents[2] / "jobs"
GAMES = 10_000
FEW, MANY = (500, 7, 0.4), (5000, 20, 0.8)
"""Settings of our PPO, for as many games as RLlib's and for as many CPU seconds: games per
iteration, gradient steps per epoch, and entropy bonus in big blinds per nat, which RLlib counts in
standard deviations of an advantage."""
QUIET = ["evaluate.every=1000000", "stop.iterations=1000"]
Training = Iterator[tuple[int, Callable[[], Any]]]
"""After each iteration: the games so far, and a function that returns the policy."""


def run() -> Result:
    """Measure exploitability in big blinds per game, and CPU seconds of learning."""
    start_ray([{"CPU": 1.0}])
    games, seconds, theirs = _gap(_trained("leduc_rllib_ppo"), GAMES, 0.0)
    lines = [f"RLlib's PPO {theirs:.3f} after {games:,} games in {seconds:.0f} s"]
    gaps = {}
    for least, until, plan in ((games, 0.0, FEW), (0, seconds, MANY)):
        ways = {
            "our PPO": _ppo(*plan),
            "our NFSP": _trained("leduc_nfsp"),
            "our MCCFR": _mccfr(mccfr.VARIANTS["external" if until else "outcome"]),
        }
        for name, way in ways.items():
            done, took, gap = _gap(way, least, until)
            lines.append(f"{name} {gap:.3f} after {done:,} games in {took:.1f} s")
            print(lines[-1])
            gaps[name] = gap
    return Result(
        name="rllib_leduc",
        work="exploitability on Leduc, self-play: " + "; ".join(lines),
        ours=gaps["our PPO"],  # the last: after equal CPU seconds
        peer=theirs,
        peer_name="RLlib's PPO, equal CPU seconds",
        unit="big blinds",
        ratio=theirs / gaps["our PPO"],
        goal=1,
    )


def _gap(way: Training, games: int, seconds: float) -> tuple[int, float, float]:
    """Train until both numbers are reached; return games, CPU seconds of learning,
    exploitability."""
    tree, took, began = build(make("leduc")), 0.0, time.process_time()
    for done, policy in way:
        took = time.process_time() - began
        if done >= games and took >= seconds:
            sigma = best_response.sigma_of(tree, [policy()] * 2)
            return done, took, best_response.exploitability(tree, sigma)
    raise AssertionError("a way that ends")


def _trained(job: str) -> Training:
    """Train by a job file without evaluation."""
    read: Any = job_file.load(FOLDER / f"{job}.yaml", QUIET, JOBS)
    trainer: Any = TRAINERS[read.trainer].trainer(read, LocalPool())
    trainer.state()  # so that RLlib has started
    return _steps(trainer, read)


def _steps(trainer: Any, job: Any) -> Training:
    features = make("leduc").features
    for k in range(1, job.stop.iterations):
        metrics = trainer.step()
        games = int(metrics["games"]) if "games" in metrics else k * job.nfsp.games
        yield games, lambda: NetworkPolicy(features, unprefixed("policy", trainer.model()))


def _mccfr(plan: mccfr.MccfrVariant) -> Training:
    """Run MCCFR; a game is one sampled walk of the updating seat."""
    tree = build(make("leduc"))
    solver = mccfr.MccfrSolver(tree, plan, np.random.default_rng(0))
    while True:
        solver.run(250)
        yield tree.seats * solver.iteration, lambda: TabularPolicy(solver.average())


def _ppo(each: int, parts: int, entropy: float) -> Training:
    """Train our PPO in self-play on both seats, with the gradient steps of RLlib's."""
    theirs: Any = job_file.load(FOLDER / "leduc_rllib_ppo.yaml", QUIET, JOBS)
    game, rng = make("leduc"), np.random.default_rng(0)
    hidden, rate, ppo = theirs.rllib.hidden, theirs.rllib.learning_rate, theirs.ppo
    critic = Critic(input_size(game), hidden, rng, rate)
    solver = Ppo(rate, entropy, ppo.clip, ppo.epochs)
    learner = ActorCritic(
        game.features,
        initial_policy_weights(game, hidden, rng, 0.1),
        critic,
        solver,
        1.0,
        ppo.gae_lambda,
        minibatches=parts,
    )
    done = 0
    while True:
        policy = learner.policy()
        learner.learn(play(game, (policy, policy), each, rng).batch, rng)
        done += each
        yield done, learner.policy

"""Measure how far back a recurrent policy of sumo must remember to win its matches.

It plays with its memory of the whole match, and with a memory that is cleared every few steps. If
clearing costs no matches, the policy does not use older observations, so it does not adapt to its
opponent within a match.

OVERTRICK_MEMORY names the runs, separated by commas: of jobs/sumo_league_continued.yaml with
league.memory=32, for example. OVERTRICK_ZOO, the folder of AgentZoo's policies, adds opponents.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import torch
from numpy.random import Generator
from tests.bench.measure import Result
from tests.bench.sumo_zoo import LSTM, MLP

from overtrick.config.job_file import GameChoice
from overtrick.core import Actions, Observations, PolicySession, UserError
from overtrick.distributed.workers import open_pool
from overtrick.evaluation.evaluate import payoff_against
from overtrick.evaluation.game_cache import cached_opponent, playable_game
from overtrick.evaluation.standard_error import standard_error
from overtrick.policies.batched_networks import BatchedNetworks, BatchedNetworksSession
from overtrick.storage import locate

GAME = GameChoice(name="sumo", options={"reward": "wins", "view": "ahead_left"})
WHOLE_MATCH = 501  # steps of 0.05 s, the most of a match
SPANS = [WHOLE_MATCH, 40, 1]  # steps until the memory is cleared
OPPONENTS = {"scripted": ["motionless", "circler", "pusher"], "champion": ["champion:sumo"]}
AGENT_ZOO = {"mlp": MLP, "lstm": LSTM}
SEEDS = range(5)
DEALS = 25  # of each opponent and seed; a deal is played from both seats


class ForgetfulPolicy:
    """A policy of recurrent networks whose memory is cleared every `span` steps."""

    remembers = True

    def __init__(self, policy: BatchedNetworks, span: int) -> None:
        self.policy, self.span = policy, span

    def start(self, games: int, rng: Generator) -> PolicySession:
        """Start a session of new matches, which play in step."""
        session = self.policy.start(games, rng)
        assert isinstance(session, BatchedNetworksSession)
        return ForgetfulSession(session, self.span)


class ForgetfulSession:
    """Matches of a `ForgetfulPolicy`."""

    def __init__(self, session: BatchedNetworksSession, span: int) -> None:
        self.session, self.span = session, span
        self.steps = 0

    def act(self, observations: Observations) -> Actions:
        """Sample actions, after clearing the memory if its time has come."""
        if self.steps % self.span == 0:
            assert self.session.memory is not None
            self.session.memory = torch.zeros_like(self.session.memory)
        self.steps += 1
        return self.session.act(observations)


def run() -> Result:
    """Play with each span against each opponent from the same positions, on two workers."""
    if "OVERTRICK_MEMORY" not in os.environ:
        raise UserError(
            "OVERTRICK_MEMORY: name runs of jobs/sumo_league_continued.yaml with league.memory=32"
        )
    runs = [locate.absolute_path(name) for name in os.environ["OVERTRICK_MEMORY"].split(",")]
    for name in runs:
        recurrent_policy(name)  # raises UserError
    groups = OPPONENTS | (AGENT_ZOO if "OVERTRICK_ZOO" in os.environ else {})
    opponents = [name for names in groups.values() for name in names]
    groups |= {"all": opponents}
    shards = [(name, o, seed) for name in runs for o in opponents for seed in SEEDS]

    def report(shard: int, shares: list[float]) -> None:
        print(*shards[shard], *(f"{share:.3f}" for share in shares), flush=True)

    with open_pool(2) as pool:
        found = pool.map(shares_won, None, shards, np.random.default_rng(0), report)
    won = np.reshape(found, (len(runs), len(opponents), len(SEEDS), len(SPANS)))
    lines = []
    for name, of_run in zip(runs, won, strict=True):
        for group, names in groups.items():
            shares = of_run[[opponents.index(each) for each in names]].mean(axis=0)
            lines.append(f"{Path(name).name} against {group}: {describe(shares)}")
    whole, last = won[..., 0].mean(), won[..., -1].mean()
    return Result(
        name="sumo_memory",
        work=f"shares of matches won with the memory cleared after {SPANS} steps, and the gain of "
        f"the whole match over {SPANS[1]} steps and of {SPANS[1]} steps over one, standard errors "
        f"over {len(SEEDS)} seeds of {2 * DEALS} matches with each opponent: " + "; ".join(lines),
        ours=float(whole),
        peer=float(last),
        peer_name="memory of one step",
        unit="of matches won",
        ratio=float(whole / last),
        goal=None,
    )


def recurrent_policy(name: str) -> BatchedNetworks:
    """Return the policy of a run. Raises UserError if it has no recurrent layer or another view."""
    policy = cached_opponent(GAME, name)
    if not (isinstance(policy, BatchedNetworks) and policy.remembers):
        raise UserError(
            f"OVERTRICK_MEMORY: {name} has no recurrent layer, or another view than ahead_left: "
            "name a run with league.memory=32"
        )
    return policy


def shares_won(rng: Generator, common: None, name: str, opponent: str, seed: int) -> list[float]:
    """Return the shares of matches won with each span, from the same positions."""
    policy, rival = recurrent_policy(name), cached_opponent(GAME, opponent)
    game, _ = playable_game(GAME)
    return [
        payoff_against(
            game, None, ForgetfulPolicy(policy, span), rival, DEALS, np.random.default_rng(seed)
        )[0]
        for span in SPANS
    ]


def describe(won: np.ndarray) -> str:
    """Describe shares (seeds, spans): their means, and the gains of longer memories."""
    means = ", ".join(f"{share:.3f}" for share in won.mean(axis=0))
    older, recent = won[:, 0] - won[:, 1], won[:, 1] - won[:, -1]
    return f"{means}, gains {gain(older)} and {gain(recent)}"


def gain(each: np.ndarray) -> str:
    return f"{each.mean():+.3f} ± {standard_error(each):.3f}"

"""Check the behaviour of AgentZoo's ants in our sumo against published claims about it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from tests.bench.measure import Result
from tests.data import DATA

import overtrick
from overtrick.core import select_rows
from overtrick.evaluation.reference_opponents import make_opponent
from overtrick.games.sumo import mujoco_model
from overtrick.games.sumo.game import FALLEN_HEIGHT, Sumo, torso_positions

MLP, LSTM = ([f"zoo:{kind}{k}" for k in (1, 2, 3)] for kind in ("mlp", "lstm"))
MATCHES = 200  # of a pair, half of them in each seat


@dataclass
class MatchStatistics:
    """Statistics of the matches of two players."""

    won: float  # share of matches won by the first player
    steps: float  # mean of a match
    out: float  # share of matches that ended out of the ring
    fallen: float
    seat: float  # share of decided matches that seat 0 won
    observation: np.ndarray  # (D, 120) observations of both


def run() -> Result:
    """Check each claim within the precision of MATCHES matches per pair."""
    folder = os.environ.get("OVERTRICK_ZOO", str(DATA / "agentzoo"))
    game = overtrick.make("sumo", reward="result", zoo=folder, threads=2)
    ants = [*MLP, *LSTM]
    pairs = {(a, b): play_matches(game, a, b) for a, b in combinations(ants, 2)}
    random = {a: play_matches(game, a, "random") for a in ants}
    still = {a: play_matches(game, a, "motionless") for a in ants}
    mirror = play_matches(game, "zoo:mlp1", "zoo:mlp1")
    mixed = [f for (a, b), f in pairs.items() if a in MLP and b in LSTM]
    mlp = [f for (a, b), f in pairs.items() if b in MLP]
    rest = [f for (_, b), f in pairs.items() if b in LSTM]
    stored = make_opponent("zoo:mlp1", game, None).std
    spread = mirror.observation.std(axis=0) / stored
    near = np.mean((spread > 1 / 1.5) & (spread < 1.5))
    undecided = 1 - np.mean([f.out + f.fallen for f in pairs.values()])
    claims = {
        "random: won >= 0.97": min(f.won for f in random.values()) >= 0.97,
        "random: 33 to 54 steps": all(33 <= f.steps <= 54 for f in random.values()),
        "motionless: mlp win 0.84 to 0.97": all(0.84 <= still[a].won <= 0.97 for a in MLP),
        "motionless: lstm win >= 0.97": all(still[a].won >= 0.97 for a in LSTM),
        "lstm win > 0.9 against mlp": np.mean([f.won for f in mixed]) < 0.1,
        "mlp pairs: 90 to 115 steps": all(90 <= f.steps <= 115 for f in mlp),
        "pairs with lstm: 48 to 66 steps": all(48 <= f.steps <= 66 for f in rest),
        "> 0.8 end out of the ring": np.mean([f.out for f in pairs.values()]) > 0.8,
        "almost none end by time": undecided < 0.03,
        "seats are even": abs(np.mean([f.seat for f in pairs.values()]) - 0.5) < 0.03,
        "spread of nine in ten inputs within 1.5 times the stored one": near >= 0.9,
    }
    failed = [name for name, holds in claims.items() if not holds]
    measured = (
        f"against random {min(f.won for f in random.values()):.3f} or more in "
        f"{min(f.steps for f in random.values()):.0f} to "
        f"{max(f.steps for f in random.values()):.0f} steps; against motionless mlp "
        f"{min(still[a].won for a in MLP):.2f} to {max(still[a].won for a in MLP):.2f}, lstm "
        f"{min(still[a].won for a in LSTM):.3f} or more; mlp win "
        f"{np.mean([f.won for f in mixed]):.3f} against lstm; mlp pairs "
        f"{min(f.steps for f in mlp):.0f} to {max(f.steps for f in mlp):.0f} steps, others "
        f"{min(f.steps for f in rest):.0f} to {max(f.steps for f in rest):.0f}; "
        f"{np.mean([f.out for f in pairs.values()]):.2f} end out of the ring, "
        f"{np.mean([f.fallen for f in pairs.values()]):.2f} by a fall; the "
        f"spread of {near:.0%} of the inputs is within 1.5 times the stored one"
    )
    return Result(
        name="sumo_zoo",
        work=f"{MATCHES} matches a pair: {measured}; ours = claims that hold"
        + (f", all but: {'; '.join(failed)}" if failed else ""),
        ours=len(claims) - len(failed),
        peer=len(claims),
        peer_name="published claims",
        unit="claims",
        ratio=(len(claims) - len(failed)) / len(claims),
        goal=1.0,
    )


def play_matches(game: Sumo, a: str, b: str) -> MatchStatistics:
    """Play matches with both players in both seats, step by step, and record how each match
    ends."""
    rng = np.random.default_rng(0)
    deal_rng, *rngs = rng.spawn(3)
    seating = np.arange(MATCHES) % 2  # the seat of the first player
    players = [
        make_opponent(n, game, None).start(MATCHES, r) for n, r in zip((a, b), rngs, strict=True)
    ]
    state = game.start(game.deal(MATCHES, deal_rng))
    points, observed = np.zeros((MATCHES, 2)), []
    while len(observations := game.observe(state)):
        action = np.empty((len(observations), 8))
        first = observations.seat == seating[observations.game]
        for player, rows in zip(players, (first, ~first), strict=True):
            some = np.flatnonzero(rows)
            action[some] = player.act(select_rows(observations, some)).action
        observed.append(observations.observation)
        points += game.step(state, observations, action)
    place = torso_positions(state.position)
    fallen = (place[..., 2] < FALLEN_HEIGHT).any(axis=1)
    out = (np.abs(place[..., :2]).max(axis=-1) >= mujoco_model.RING).any(axis=1)
    won = points[np.arange(MATCHES), seating]
    decided = points[:, 0] != 0
    return MatchStatistics(
        won=float((won > 0).mean()),
        steps=float(state.steps.mean()),
        out=float(out.mean()),
        fallen=float((fallen & ~out).mean()),
        seat=float((points[decided, 0] > 0).mean()),
        observation=np.concatenate(observed),
    )

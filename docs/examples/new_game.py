"""Write a new game: both roll a die, the first may bet, the second calls or not."""

from dataclasses import dataclass

import numpy as np

import overtrick as ot


@dataclass
class State:
    rolls: np.ndarray  # (games, 2)
    stage: np.ndarray  # (games,) 0: the first player acts, 1: a bet was made, 2: the game is over


class DicePoker:
    name, unit, seats, actions, infosets, min_tree_size = "dice_poker", "chip", 2, 2, 12, 36
    action_names, observation_fields, lowest_payoff = ("pass", "bet"), ("roll", "stage"), -2.0

    def every_deal(self):
        return np.indices((6, 6)).reshape(2, 36).T, np.full(36, 1 / 36)

    def deal(self, games, rng):
        return rng.integers(6, size=(games, 2))

    def start(self, deals):
        return State(deals, np.zeros(len(deals), int))

    def revealed_columns(self, state):
        return np.minimum(state.stage + 1, 2)

    def observe(self, state):
        game = np.flatnonzero(state.stage < 2)
        seat = state.stage[game]
        seen = np.stack([state.rolls[game, seat], seat], axis=1)
        return ot.Observations(game, seat, seen, np.ones_like(seen, bool), seen @ [1, 6])

    def step(self, state, observations, action):
        if not np.isin(action, (0, 1)).all():
            raise ValueError("illegal action")
        game, seat, rolls = observations.game, observations.seat, state.rolls[observations.game]
        won = np.sign(rolls[:, 0] - rolls[:, 1]) * (1 + seat)
        won = np.where((seat == 1) & (action == 0), 1, np.where(seat < action, 0, won))
        state.stage[game] = np.where(seat < action, 1, 2)
        gain = np.zeros((len(state.stage), 2))
        gain[game, 0], gain[game, 1] = won, -won
        return gain

    def features(self, observations):
        return np.eye(12, dtype=np.float32)[observations.infoset]

    def hand(self, observations):
        return observations.observation[:, 0] + 1

    def describe(self, observation):
        return f"you rolled {observation[0] + 1}"


solution = ot.solve(DicePoker(), iterations=1000)
print(f"value {solution.values[0]:+.3f}, exploitability {solution.exploitability:.1g} chips")

"""Our games as games of OpenSpiel where they have an exact tree, and our policies as its own.

theirs = openspiel_game("leduc")
pyspiel.CFRSolver(theirs).evaluate_and_update_policy()
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyspiel

from overtrick.core import CHANCE, END, Array, BehaviouralPolicy, ExplicitTreeGame, Game, UserError
from overtrick.games import registry
from overtrick.games.openspiel_tree import cumulative_gain, tabular_policy
from overtrick.solvers.extensive.tree import Tree, build


class TreeData:
    """A game laid out: its tree, and what OpenSpiel asks about it."""

    def __init__(self, game: Game, tree: Tree) -> None:
        self.game = game
        self.tree = tree
        self.words = tuple(
            f"seat {seat}, set {number}: "
            + ", ".join(
                f"{fact} {value}" for fact, value in zip(game.observation_fields, seen, strict=True)
            )
            for number, (seat, seen) in enumerate(
                zip(tree.observations.seat, tree.observations.observation, strict=True)
            )
        )
        self.features = game.features(tree.observations)
        self.returns = cumulative_gain(tree)
        self.owner = np.append(-1, tree.action_infoset)  # information set of each sequence

    def __deepcopy__(self, memo: object) -> TreeData:
        """Itself: OpenSpiel copies all that a state holds whenever it clones one."""
        return self

    def known(self, node: int, seat: int) -> int:
        """The information set in which the seat is, or was when it acted last; -1 before that."""
        if self.tree.seat[node] == seat:
            return int(self.tree.infoset[node])
        return int(self.owner[self.tree.sequence[node, seat]])


class OpenSpielGame(pyspiel.Game):
    """A game with chance where it is revealed, one seat acting after another, paid at the end.

    Actions have our numbers, outcomes of chance their rank. A seat that is not to act knows what it
    knew when it acted last.
    """

    def __init__(self, data: TreeData) -> None:
        self.data = data
        tree, name, kinds = data.tree, data.game.name, pyspiel.GameType
        ends = data.returns[tree.seat == END]
        sums = ends.sum(axis=1)
        constant = np.ptp(sums) < 1e-9
        utility = kinds.Utility.CONSTANT_SUM if constant else kinds.Utility.GENERAL_SUM
        if constant and abs(sums[0]) < 1e-9:
            utility = kinds.Utility.ZERO_SUM
        chance = tree.children[tree.seat == CHANCE]
        explicit, none = kinds.ChanceMode.EXPLICIT_STOCHASTIC, kinds.ChanceMode.DETERMINISTIC
        super().__init__(
            kinds(
                short_name=f"overtrick_{name}",
                long_name=f"{name} of Overtrick",
                dynamics=kinds.Dynamics.SEQUENTIAL,
                chance_mode=explicit if len(chance) else none,
                information=kinds.Information.IMPERFECT_INFORMATION,
                utility=utility,
                reward_model=kinds.RewardModel.TERMINAL,
                max_num_players=tree.seats,
                min_num_players=tree.seats,
                provides_information_state_string=True,
                provides_information_state_tensor=True,
                provides_observation_string=False,
                provides_observation_tensor=False,
            ),
            pyspiel.GameInfo(
                num_distinct_actions=tree.legal.shape[1],
                max_chance_outcomes=int(chance.max(initial=0)),
                num_players=tree.seats,
                min_utility=float(ends.min()),
                max_utility=float(ends.max()),
                utility_sum=float(sums[0]) if constant else None,
                max_game_length=sum(tree.max_decisions(seat) for seat in range(tree.seats)),
            ),
            {},
        )

    def tabular(self, policy: BehaviouralPolicy) -> Any:
        """A policy of ours as a pyspiel.TabularPolicy on this game."""
        tree = self.data.tree
        return tabular_policy(self.data.words, tree.legal, policy.probs(tree.observations))

    def sigma(self, policy: Any) -> Array:
        """(N, A) the strategy of any of OpenSpiel's policies on this game, for our solvers."""
        tree, state = self.data.tree, self.new_initial_state()
        sigma = np.zeros(tree.legal.shape)
        acts = np.flatnonzero(tree.seat >= 0)
        _, first = np.unique(tree.infoset[acts], return_index=True)
        for number, node in enumerate(acts[first].tolist()):
            state.node = node
            for action, probability in policy.action_probabilities(state).items():
                sigma[number, action] = probability
        return sigma

    def new_initial_state(self) -> OpenSpielState:
        return OpenSpielState(self)

    def make_py_observer(self, iig_obs_type: Any = None, params: Any = None) -> _Observer:
        return _Observer(self.data)


class OpenSpielState(pyspiel.State):
    """A node of the tree."""

    def __init__(self, game: OpenSpielGame) -> None:
        super().__init__(game)
        self.data = game.data
        self.node = 0

    def current_player(self) -> int:
        seat = int(self.data.tree.seat[self.node])
        if seat == END:
            return int(pyspiel.PlayerId.TERMINAL)
        return int(pyspiel.PlayerId.CHANCE) if seat == CHANCE else seat

    def is_terminal(self) -> bool:
        return bool(self.data.tree.seat[self.node] == END)

    def chance_outcomes(self) -> list[tuple[int, float]]:
        return list(enumerate(self.data.tree.chance[self._below()].tolist()))

    def returns(self) -> list[float]:
        """Points of each seat; none before the end."""
        if not self.is_terminal():
            return [0.0] * self.data.tree.seats
        points: list[float] = self.data.returns[self.node].tolist()
        return points

    def _below(self) -> slice:
        """The nodes that follow."""
        first = self.data.tree.first[self.node]
        return slice(first, first + self.data.tree.children[self.node])

    def _legal_actions(self, player: int) -> list[int]:
        actions: list[int] = self.data.tree.edge[self._below()].tolist()
        return actions

    def _apply_action(self, action: int) -> None:
        below = self._below()
        (place,) = np.nonzero(self.data.tree.edge[below] == action)
        if not len(place):
            raise ValueError(f"{action} is not legal at {self}")
        self.node = int(below.start + place[0])

    def _action_to_string(self, player: int, action: int) -> str:
        chance = player == pyspiel.PlayerId.CHANCE
        return f"outcome {action}" if chance else self.data.game.action_names[action]

    def __str__(self) -> str:
        return f"node {self.node} of {self.data.game.name}"


class _Observer:
    """What a seat knows: the words of its information set, and our features as a tensor."""

    def __init__(self, data: TreeData) -> None:
        self.data = data
        self.tensor = np.zeros(data.features.shape[1], np.float32)
        self.dict = {"features": self.tensor}

    def set_from(self, state: OpenSpielState, player: int) -> None:
        known = self.data.known(state.node, player)
        self.tensor[:] = self.data.features[known] if known >= 0 else 0

    def string_from(self, state: OpenSpielState, player: int) -> str:
        known = self.data.known(state.node, player)
        return self.data.words[known] if known >= 0 else f"seat {player}, nothing yet"


def openspiel_game(name: str, **options: Any) -> OpenSpielGame:
    """A game of the registry for OpenSpiel's algorithms; options are its own. Raises UserError
    unless its tree fits in memory."""
    game = registry.make(name, **options)
    if isinstance(game, ExplicitTreeGame):
        raise UserError(f"{name} comes from OpenSpiel, which has it under its own name")
    return OpenSpielGame(TreeData(game, build(game)))

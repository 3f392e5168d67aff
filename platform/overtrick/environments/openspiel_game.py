"""Convert games of this project with an exact tree, and their policies, to those of OpenSpiel.

Example:

    theirs = openspiel_game("leduc")
    pyspiel.CFRSolver(theirs).evaluate_and_update_policy()
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyspiel

from overtrick.core import CHANCE, END, Array, BehaviouralPolicy, ExplicitTreeGame, Game, UserError
from overtrick.games import registry
from overtrick.games.observation_validation import list_fields
from overtrick.games.openspiel_tree import cumulative_gain, tabular_policy
from overtrick.solvers.extensive.tree import Tree, build


class TreeData:
    """The exact tree of a game, with information-state strings, features and returns."""

    def __init__(self, game: Game, tree: Tree) -> None:
        self.game = game
        self.tree = tree
        rows = zip(tree.observations.seat, tree.observations.observation, strict=True)
        self.infoset_strings = tuple(
            f"seat {seat}, set {number}: {list_fields(game.observation_fields, observation)}"
            for number, (seat, observation) in enumerate(rows)
        )
        self.features = game.features(tree.observations)
        self.returns = cumulative_gain(tree)
        self.sequence_infoset = np.append(-1, tree.action_infoset)  # infoset of each sequence

    def __deepcopy__(self, memo: object) -> TreeData:
        """Return the same object, since OpenSpiel deep-copies a state whenever it clones it."""
        return self

    def infoset_of(self, node: int, seat: int) -> int:
        """Return the information set of a seat's latest decision on the path to a tree node.

        The node's own decision counts too. Returns -1 if the seat has not decided yet.
        """
        if self.tree.seat[node] == seat:
            return int(self.tree.infoset[node])
        return int(self.sequence_infoset[self.tree.sequence[node, seat]])


class OpenSpielGame(pyspiel.Game):
    """A game of this project as a sequential OpenSpiel game with explicit chance.

    Returns are given at the end of the game. Actions have the same numbers as in this project. The
    chance outcomes of a node are numbered from 0. A seat that is not to act keeps the information
    state of its last decision.
    """

    def __init__(self, data: TreeData) -> None:
        self.data = data
        tree, name, kinds = data.tree, data.game.name, pyspiel.GameType
        returns = data.returns[tree.seat == END]
        sums = returns.sum(axis=1)
        constant = np.ptp(sums) < 1e-9
        utility = kinds.Utility.CONSTANT_SUM if constant else kinds.Utility.GENERAL_SUM
        if constant and abs(sums[0]) < 1e-9:
            utility = kinds.Utility.ZERO_SUM
        outcomes = tree.children[tree.seat == CHANCE]
        modes = kinds.ChanceMode
        super().__init__(
            kinds(
                short_name=f"overtrick_{name}",
                long_name=f"{name} of Overtrick",
                dynamics=kinds.Dynamics.SEQUENTIAL,
                chance_mode=modes.EXPLICIT_STOCHASTIC if len(outcomes) else modes.DETERMINISTIC,
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
                max_chance_outcomes=int(outcomes.max(initial=0)),
                num_players=tree.seats,
                min_utility=float(returns.min()),
                max_utility=float(returns.max()),
                utility_sum=float(sums[0]) if constant else None,
                max_game_length=sum(tree.max_decisions(seat) for seat in range(tree.seats)),
            ),
            {},
        )

    def tabular(self, policy: BehaviouralPolicy) -> Any:
        """Convert a policy of this project to a pyspiel.TabularPolicy of this game."""
        strings, tree = self.data.infoset_strings, self.data.tree
        return tabular_policy(strings, tree.legal, policy.probs(tree.observations))

    def sigma(self, policy: Any) -> Array:
        """Convert an OpenSpiel policy for this game to a strategy array sigma of this project.

        Returns (N, A) action probabilities for N information sets and A actions.
        """
        tree, state = self.data.tree, self.new_initial_state()
        sigma = np.zeros(tree.legal.shape)
        decisions = np.flatnonzero(tree.seat >= 0)
        _, first = np.unique(tree.infoset[decisions], return_index=True)
        for number, node in enumerate(decisions[first].tolist()):
            state.node = node
            for action, probability in policy.action_probabilities(state).items():
                sigma[number, action] = probability
        return sigma

    def new_initial_state(self) -> OpenSpielState:
        """Return the state at the root of the tree."""
        return OpenSpielState(self)

    def make_py_observer(self, iig_obs_type: Any = None, params: Any = None) -> _Observer:
        """Return the observer of information states; the requested observation type is ignored."""
        return _Observer(self.data)


class OpenSpielState(pyspiel.State):
    """State of an OpenSpielGame: a node of its tree."""

    def __init__(self, game: OpenSpielGame) -> None:
        super().__init__(game)
        self.data = game.data
        self.node = 0

    def current_player(self) -> int:
        """Return the seat to act, or OpenSpiel's number for chance or for a terminal state."""
        seat = int(self.data.tree.seat[self.node])
        if seat == END:
            return int(pyspiel.PlayerId.TERMINAL)
        return int(pyspiel.PlayerId.CHANCE) if seat == CHANCE else seat

    def is_terminal(self) -> bool:
        """Return whether the game is over."""
        return bool(self.data.tree.seat[self.node] == END)

    def chance_outcomes(self) -> list[tuple[int, float]]:
        """Return the outcomes of this chance node with their probabilities."""
        return list(enumerate(self.data.tree.chance[self._children()].tolist()))

    def returns(self) -> list[float]:
        """Return the total points of each seat (S,) after the end of the game; zeros before."""
        if not self.is_terminal():
            return [0.0] * self.data.tree.seats
        return self.data.returns[self.node].tolist()

    def _children(self) -> slice:
        """Return the indices of this node's children in the tree, as a slice."""
        first = self.data.tree.first[self.node]
        return slice(first, first + self.data.tree.children[self.node])

    def _legal_actions(self, player: int) -> list[int]:
        return self.data.tree.edge[self._children()].tolist()

    def _apply_action(self, action: int) -> None:
        children = self._children()
        (place,) = np.nonzero(self.data.tree.edge[children] == action)
        if not len(place):
            raise ValueError(f"{action} is not legal at {self}")
        self.node = int(children.start + place[0])

    def _action_to_string(self, player: int, action: int) -> str:
        chance = player == pyspiel.PlayerId.CHANCE
        return f"outcome {action}" if chance else self.data.game.action_names[action]

    def __str__(self) -> str:
        return f"node {self.node} of {self.data.game.name}"


class _Observer:
    """Observer of a player's information state, as a string or as a tensor of features."""

    def __init__(self, data: TreeData) -> None:
        self.data = data
        self.tensor = np.zeros(data.features.shape[1], np.float32)
        self.dict = {"features": self.tensor}

    def set_from(self, state: OpenSpielState, player: int) -> None:
        """Write the features of a player's information set to `self.tensor`.

        Writes zeros if the player has not had to act yet.
        """
        infoset = self.data.infoset_of(state.node, player)
        self.tensor[:] = self.data.features[infoset] if infoset >= 0 else 0

    def string_from(self, state: OpenSpielState, player: int) -> str:
        """Return the string of the information set of a player's latest decision.

        Before the player's first decision the string is "seat P, nothing yet" for player P.
        """
        infoset = self.data.infoset_of(state.node, player)
        return self.data.infoset_strings[infoset] if infoset >= 0 else f"seat {player}, nothing yet"


def openspiel_game(name: str, **options: Any) -> OpenSpielGame:
    """Make an OpenSpiel game from a registered game of this project.

    `options`: the game's options. Raises UserError for an unknown game, for a game whose tree does
    not fit in memory, and for a game that comes from OpenSpiel itself.
    """
    game = registry.make(name, **options)
    if isinstance(game, ExplicitTreeGame):
        raise UserError(f"{name} comes from OpenSpiel: load it with pyspiel by its own name")
    return OpenSpielGame(TreeData(game, build(game)))

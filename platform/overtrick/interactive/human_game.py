"""A game for a person in one seat against policies in the other seats, with advice on actions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from overtrick.core import Array, BehaviouralPolicy, Observations, Policy, Resumable, UserError
from overtrick.distributed.workers import RngStream, generator
from overtrick.evaluation import game_cache, reference_opponents
from overtrick.games import registry
from overtrick.games.presentation import Presentation
from overtrick.policies.uniform import UniformPolicy
from overtrick.solvers.extensive import best_response
from overtrick.solvers.extensive.tree import Tree
from overtrick.solvers.lookahead.pimc import PimcPolicy
from overtrick.storage.champions import default_champion
from overtrick.storage.game_records import Move
from overtrick.studies import match

WORLDS = 40  # number of deals that PIMC samples for the advice on one decision
STRONGEST = ("cfr", "rules", "ta", "random")
"""Reference opponents, strongest first, for a game without a default champion."""


class ActionAdvice(NamedTuple):
    """Advice on one legal action."""

    action: int
    probability: float | None  # under the opponent's policy; in the auction, the partner's policy
    value: float | None  # expected points after this action
    meaning: str = ""  # meaning of a call in the auction


class SeatValues(NamedTuple):
    """Exact values of one seat in points, if the opponent's policy plays all other seats.

    - `best_response`: value of a best response in this seat.
    - `opponent`: self-play value, if the opponent's policy also plays this seat.
    - `action_values`: value of each action in each information set, if a best response follows.
    - `reachable`: the information sets that the seat can reach.
    """

    best_response: float
    opponent: float
    action_values: Array  # (N, A)
    reachable: Array  # (N,) bool


@dataclass(frozen=True)
class HumanGame:
    """A game for a person in one seat, with policies for the other seats, and advice."""

    game: Any
    options: Mapping[str, Any]
    against: str  # description of the opponents
    policies: Callable[[int], Sequence[Policy]]  # from the person's seat to the policies by seat
    describe_observation: Callable[[Array, Sequence[Move]], str]  # from an observation (K,) to text
    advise: Callable[[Observations], list[ActionAdvice]]  # advice at a decision (one row)
    value_source: str  # description of how the values are computed; "" without values
    presentation: Presentation  # text presentation of the game
    seat_values: tuple[SeatValues, ...] | None = None  # by seat, if the game has a tree
    systems: tuple[str, ...] = ()  # auction: bidding systems of the person's side and the opponents

    def seat_name(self, seat: int) -> str:
        """Return the name of a seat for a sentence, such as "seat 1 of 2" or "South"."""
        seats = self.presentation.seat_names()
        return f"seat {seats[seat]} of {len(seats)}" if seats[seat].isdigit() else seats[seat]

    def own_side(self, seat: int) -> Array:
        """Return a mask (S,) of seats: True for the person's and, in the auction, the partner's."""
        sides = 2 if self.systems else self.game.seats
        return (np.arange(self.game.seats) - seat) % sides == 0

    def value_loss(self, observations: Observations, action: int) -> float | None:
        """Return the points that an action loses against the best action at a decision.

        `observations`: one row, the decision. Returns None if the game has no exact values, and 0
        at an unreachable information set.
        """
        if self.seat_values is None or observations.infoset is None:
            return None
        infoset, values = int(observations.infoset[0]), self.seat_values[int(observations.seat[0])]
        assert observations.legal is not None
        if not values.reachable[infoset]:
            return 0.0
        of_actions = values.action_values[infoset]
        return float(of_actions[observations.legal[0]].max() - of_actions[action])


def advice_rows(table: HumanGame, observations: Observations) -> list[list[str]]:
    """Return advice on a decision as the rows of a table, after a row of headings.

    `observations`: one row, the decision. Each legal action has a row with its name, probability,
    value and meaning. Columns without any entry are left out.
    """
    advice = table.advise(observations)
    columns = {
        "action": [table.game.action_names[a.action] for a in advice],
        "probability": ["" if a.probability is None else f"{a.probability:.1%}" for a in advice],
        "value": ["" if a.value is None else f"{a.value:+.3f}" for a in advice],
        "meaning": [a.meaning for a in advice],
    }
    columns = {name: cells for name, cells in columns.items() if any(cells)}
    return [list(columns), *map(list, zip(*columns.values(), strict=True))]


def make_human_game(
    name: str, against: str | None, options: Mapping[str, Any], signs: bool
) -> HumanGame:
    """Make a game for a person, with discrete actions and one opponent policy in all other seats.

    `against`: the name of a reference opponent, a champion, a run, or a model folder; None for the
        game's default champion or, if it has none, for its strongest reference opponent.
    `options`: the game's options.
    `signs`: print suits as symbols.

    Raises UserError for an unknown game, option or opponent, and for a game that people cannot
    play.
    """
    if name not in registry.names():
        registry.check_playable(registry.make(name))
    if against is None:
        game = registry.make(name, **registry.match_options(name, options))
        known = reference_opponents.opponent_names(game)
        against = default_champion(name, options) or next(
            opponent for opponent in STRONGEST if opponent in known
        )
    match.check_players((against,), ())
    choice = match.choose_game(against, against, name, options)
    game, tree = game_cache.playable_game(choice)
    if game.actions is None:
        raise UserError(
            f"{name} has continuous actions, which a person cannot type: use overtrick match "
            "--video"
        )
    policy = match.load_player(against, choice)
    values = None if tree is None else tuple(_values_by_seat(tree, policy))
    search, value_source = None, ""
    if values is not None:
        value_source = "the exact value of this action, followed by a best response"
    elif isinstance(game, Resumable) and isinstance(policy, BehaviouralPolicy):
        search = PimcPolicy(game, policy, UniformPolicy(), WORLDS)
        value_source = (
            f"the mean over {WORLDS} deals that are consistent with what you see, completed by "
            "random play against the opponent"
        )
    presentation = registry.presentation(game, signs)
    return HumanGame(
        game,
        choice.options,
        against,
        lambda seat: [policy] * game.seats,
        presentation.describe_observation,
        partial(_advise, policy, values, search),
        value_source,
        presentation,
        values,
    )


def _values_by_seat(tree: Tree, policy: BehaviouralPolicy) -> list[SeatValues]:
    """Compute exact best-response values and action values of each seat against a policy.

    `policy`: the policy of all other seats. An action value assumes that the seat plays a best
    response after the action.
    """
    sigma = best_response.sigma_of(tree, [policy] * tree.seats)
    own = best_response.expected(tree, sigma)
    found = []
    for seat in range(tree.seats):
        best, reply = best_response.best_response(tree, sigma, seat)
        values = best_response.conditional_action_values(tree, reply, seat)
        found.append(SeatValues(float(best), float(own[seat]), *values))
    return found


def _advise(
    policy: Policy,
    seat_values: tuple[SeatValues, ...] | None,
    search: PimcPolicy | None,
    observations: Observations,
) -> list[ActionAdvice]:
    """Advise a person at a decision: return each legal action with its probability and its value.

    - The probability is that with which the opponent would take this action at this decision; None
      if `policy`, the opponent's policy, does not give probabilities.
    - The value is exact if there are `seat_values`. Otherwise, `search` estimates it by
      perfect-information Monte Carlo (PIMC). Without both it is None.

    `observations`: one row, the decision.
    """
    assert observations.legal is not None
    probabilities = values = None
    if isinstance(policy, BehaviouralPolicy):
        probabilities = policy.probs(observations)[0]
    if seat_values is not None and observations.infoset is not None:
        own, infoset = seat_values[int(observations.seat[0])], int(observations.infoset[0])
        values = own.action_values[infoset] if own.reachable[infoset] else None
    elif search is not None:
        values = search.action_values(observations, generator(0, RngStream.EVALUATE))[0]
    return [
        ActionAdvice(
            int(action),
            None if probabilities is None else float(probabilities[action]),
            None if values is None else float(values[action]),
        )
        for action in np.flatnonzero(observations.legal[0])
    ]

"""Who sits with a person, what the person sees, and what could be advised."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from overtrick.core import Array, BehaviouralPolicy, Observations, Policy, Resumable, UserError
from overtrick.distributed.workers import RngStream, generator
from overtrick.evaluation import game_cache, reference_opponents
from overtrick.evaluation.bidders import Side, load_side
from overtrick.games import registry
from overtrick.games.bridge import diagram
from overtrick.games.bridge.auction import observation
from overtrick.games.bridge.auction.game import Auction
from overtrick.games.bridge.system import auction_simulation
from overtrick.games.bridge.system.explanation import describe_meaning
from overtrick.policies.uniform import UniformPolicy
from overtrick.solvers.extensive import best_response
from overtrick.solvers.extensive.tree import Tree
from overtrick.solvers.lookahead.pimc import PimcPolicy
from overtrick.storage.game_records import Move
from overtrick.studies import match
from overtrick.studies.duplicate_match import find_bidder

WORLDS = 40  # deals that are imagined for a piece of advice
STRONGEST = ("cfr", "rules", "ta", "random")
"""Whom one meets who names nobody: the first that the game knows."""


class Thought(NamedTuple):
    """What can be said of an action."""

    action: int
    likely: float | None  # how often who is asked would do it
    worth: float | None  # points that it is expected to bring from here on
    shows: str = ""


class Exact(NamedTuple):
    """What a seat can win from the opponent, points a game, and how."""

    best: float  # by best replies
    opponent: float  # by playing as the opponent does
    worth: Array  # (N, A) by each action, then best replies
    comes: Array  # (N,) bool: may the seat come there at all?


@dataclass(frozen=True)
class Table:
    """A game with a free seat."""

    game: Any
    options: Mapping[str, Any]
    against: str  # in words
    players: Callable[[int], Sequence[Policy]]  # by seat, if the person takes this one
    sees: Callable[[Array, Sequence[Move]], str]  # by a row of facts (K,)
    shows: Callable[[Array, Sequence[Move]], str]  # once a game is over, of its deal (C,)
    thoughts: Callable[[Observations], list[Thought]]  # of a turn of one row
    basis: str  # what the worth of a thought rests on
    exact: tuple[Exact, ...] | None = None  # by seat
    systems: tuple[str, ...] = ()  # of an auction: the person's side's, the other side's

    def own(self, seat: int) -> Array:
        """(S,) bool: the person's own seat, and the one of a partner who wins with it."""
        every = np.arange(self.game.seats)
        return (every - seat) % (2 if self.systems else self.game.seats) == 0

    @property
    def seats(self) -> tuple[str, ...]:
        """Their names."""
        return registry.presentation(self.game).seat_names()

    @property
    def usual(self) -> int | None:
        """Where a person sits by custom; None if seats are taken in turns."""
        return registry.presentation(self.game).default_human_seat()

    def offered(self, names: Sequence[str]) -> str:
        """What may be done."""
        return registry.presentation(self.game).format_actions(names)

    def meant(self, word: str) -> str:
        """A word that people use for an action, as the game has it."""
        return registry.presentation(self.game).action_name_of(word)

    def given_up(self, observations: Observations, action: int) -> float | None:
        """Points that an action at a turn of one row brings less than the best; None if nobody can
        tell."""
        if self.exact is None or observations.infoset is None:
            return None
        infoset, exact = int(observations.infoset[0]), self.exact[int(observations.seat[0])]
        assert observations.legal is not None
        worth = exact.worth[infoset]
        return (
            float(worth[observations.legal[0]].max() - worth[action])
            if exact.comes[infoset]
            else 0.0
        )


def table_of(name: str, against: str | None, options: Mapping[str, Any], signs: bool) -> Table:
    """A table of any game of single actions; against: a stranger, a run or a model. Raises
    UserError."""
    if name not in registry.names():
        registry.check_playable(registry.make(name))
    if against is None:
        made = registry.make(name, **registry.match_options(name, options))
        against = next(who for who in STRONGEST if who in reference_opponents.opponent_names(made))
    match.check_known((against,), ())
    choice = match.choice_of(against, against, name, options)
    game, tree = game_cache.playable_game(choice)
    if game.actions is None:
        raise UserError(
            f"{name} moves by real vectors, which nobody can type: match it with --video"
        )
    policy = match.player_of(against, choice)
    exact = None if tree is None else tuple(_exact(tree, policy))
    thoughts, basis = partial(_thoughts, policy, exact, None), ""
    if exact is not None:
        basis = "the exact mean of this action, then best replies to the opponent"
    elif isinstance(game, Resumable) and isinstance(policy, BehaviouralPolicy):
        search = PimcPolicy(game, policy, UniformPolicy(), WORLDS)
        thoughts, basis = partial(_thoughts, policy, None, search), (
            f"the mean of {WORLDS} deals that fit what you see, played on at random against the "
            "opponent"
        )  # fmt: skip
    return Table(
        game, choice.options, against, lambda seat: [policy] * game.seats,
        partial(registry.presentation(game).describe_observation, signs=signs),
        partial(registry.presentation(game).describe_deal, signs=signs), thoughts,
        basis, exact,
    )  # fmt: skip


def _exact(tree: Tree, policy: BehaviouralPolicy) -> list[Exact]:
    """By seat, against a policy in all others."""
    sigma = best_response.sigma_of(tree, [policy] * tree.seats)
    own = best_response.expected(tree, sigma)
    found = []
    for seat in range(tree.seats):
        best, reply = best_response.best_response(tree, sigma, seat)
        found.append(
            Exact(
                float(best),
                float(own[seat]),
                *best_response.conditional_action_values(tree, reply, seat),
            )
        )
    return found


def _thoughts(
    policy: Policy,
    exact: tuple[Exact, ...] | None,
    search: PimcPolicy | None,
    observations: Observations,
) -> list[Thought]:
    """Of each action: how likely the opponent would take it in this seat, and what it brings."""
    assert observations.legal is not None
    likely = policy.probs(observations)[0] if isinstance(policy, BehaviouralPolicy) else None
    worth = None
    if exact is not None and observations.infoset is not None:
        here, infoset = exact[int(observations.seat[0])], int(observations.infoset[0])
        worth = here.worth[infoset] if here.comes[infoset] else None
    elif search is not None:
        worth = search.action_values(observations, generator(0, RngStream.EVALUATE))[0]
    return [
        Thought(
            int(action),
            None if likely is None else float(likely[action]),
            None if worth is None else float(worth[action]),
        )
        for action in np.flatnonzero(observations.legal[0])
    ]


def auction_table(system: str, against: str, options: Mapping[str, Any], signs: bool) -> Table:
    """The auction with a partner who bids as you are to do, against another side; each a system, a
    run or the folder of a model. Raises UserError."""
    mine, theirs = (load_side(str(find_bidder(each) or each)) for each in (system, against))
    game = registry.make(Auction.name, **options)
    if game.seats != 4:
        raise UserError("a person calls for one hand: leave out seats")

    def players(seat: int) -> list[Policy]:
        ns, ew = _pairs(mine, theirs, seat)
        both = [side.policy(ns.system, ew.system) for side in (ns, ew)]
        return [both[who % 2] for who in range(4)]

    def sees(seen: Array, moves: Sequence[Move]) -> str:
        ns, ew = _pairs(mine, theirs, int(seen[0]))
        said = registry.presentation(game).describe_observation(seen, moves, signs)
        calls, dealer, vulnerable = (
            observation.calls_from_observation(seen),
            int(seen[1]),
            int(seen[2]),
        )
        meanings = auction_simulation.explain_calls(calls, dealer, vulnerable, ns.system, ew.system)
        return "\n".join([said, *diagram.call_meanings(calls, dealer, meanings, signs)])

    basis = "IMPs against par, as its network of values expects them" if mine.imps else ""
    return Table(
        game, options, f"{theirs.name}, with {mine.name} as partner", players, sees,
        partial(registry.presentation(game).describe_deal, signs=signs),
        partial(_calls, mine, theirs), basis,
        systems=(mine.system.name, theirs.system.name),
    )  # fmt: skip


def _pairs(mine: Side, theirs: Side, seat: int) -> tuple[Side, Side]:
    """North-South and East-West, if a seat is on the first side."""
    return (mine, theirs) if seat % 2 == 0 else (theirs, mine)


def _calls(mine: Side, theirs: Side, observations: Observations) -> list[Thought]:
    """Of each call that the partner might make in this seat, or that shows something in its
    system: the likeliest, or what is expected to bring most, first."""
    assert observations.legal is not None
    seen = observations.observation[0]
    ns, ew = _pairs(mine, theirs, int(seen[0]))
    policy: Any = mine.policy(ns.system, ew.system)
    if mine.calls is None:
        chosen = policy.probs(observations)[0]
        ranked = {int(call): (float(chosen[call]), None) for call in np.flatnonzero(chosen)}
    else:
        ranked = {
            each.call: (each.probability, each.imps) for each in policy.candidates(observations)[0]
        }
    found, before = [], observation.calls_from_observation(seen)
    for call in [
        *ranked,
        *(int(c) for c in np.flatnonzero(observations.legal[0]) if c not in ranked),
    ]:
        meaning = auction_simulation.call_meanings(
            [*before, call], int(seen[1]), int(seen[2]), ns.system, ew.system
        )[-1]
        if call in ranked or meaning.rule is not None:
            likely, worth = ranked.get(call, (0.0, None))
            found.append(Thought(call, likely, worth, describe_meaning(meaning)))
    return found

"""The bridge auction for a person with a partner against two opponents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from overtrick.core import Array, Observations, Policy, UserError
from overtrick.evaluation.bidders import Side, load_side
from overtrick.games import registry
from overtrick.games.bridge import diagram
from overtrick.games.bridge.auction import observation
from overtrick.games.bridge.auction.game import Auction
from overtrick.games.bridge.system import auction_simulation
from overtrick.games.bridge.system.explanation import describe_meaning
from overtrick.games.presentation import Presentation
from overtrick.interactive.human_game import ActionAdvice, HumanGame
from overtrick.storage.game_records import Move


def make_auction_game(
    system: str, against: str, options: Mapping[str, Any], signs: bool
) -> HumanGame:
    """Make an auction game for a person and a partner against two opponents.

    `system`: the bidder of the person's partnership, which bids for the partner.
    `against`: the bidder of the opponents.
    `options`: the game's options.
    `signs`: print suits as symbols.

    A bidder is the name of a bidding system, a run, or a model folder. Raises UserError for an
    unknown bidder, or if the option `seats` is not 4.
    """
    ours, theirs = (load_side(each) for each in (system, against))
    game = registry.make(Auction.name, **options)
    if game.seats != 4:
        raise UserError("a person bids one hand: leave out the option seats")

    def policies(seat: int) -> list[Policy]:
        ns, ew = _north_south_first(ours, theirs, seat)
        return [side.policy(ns.system, ew.system) for side in (ns, ew)] * 2

    presentation = registry.presentation(game, signs)
    value_source = "expected IMPs against par, by the value network" if ours.imps else ""
    return HumanGame(
        game,
        options,
        f"{theirs.name}, with {ours.name} as partner",
        policies,
        partial(_describe_observation, presentation, ours, theirs),
        partial(_advise, ours, theirs),
        value_source,
        presentation,
        systems=(ours.system.name, theirs.system.name),
    )


def _north_south_first(ours: Side, theirs: Side, seat: int) -> tuple[Side, Side]:
    """Return the two partnerships in the order North-South, East-West.

    `ours`: the partnership of `seat`. `seat`: 0 to 3 for N, E, S, W.
    """
    return (ours, theirs) if seat % 2 == 0 else (theirs, ours)


def _describe_observation(
    presentation: Presentation, ours: Side, theirs: Side, seen: Array, moves: Sequence[Move]
) -> str:
    """Return an observation of the auction as text, with the meaning of each call so far.

    `ours`, `theirs`: the partnerships of the person and of the opponents. `seen`: the observation,
    an array (K,). `moves`: all calls so far.
    """
    ns, ew = _north_south_first(ours, theirs, int(seen[0]))
    calls, dealer = observation.calls_from_observation(seen), int(seen[1])
    meanings = auction_simulation.explain_calls(calls, dealer, int(seen[2]), ns.system, ew.system)
    view = presentation.describe_observation(seen, moves)
    return "\n".join([view, *diagram.call_meanings(calls, dealer, meanings, presentation.signs)])


def _advise(ours: Side, theirs: Side, observations: Observations) -> list[ActionAdvice]:
    """Return advice to a person at a decision: the sensible calls, each with its meaning.

    The list starts with the calls that the person's partner, a bidding system or trained model,
    would consider in this position. A trained model sorts these calls by expected IMPs. Then follow
    the other legal calls that have a meaning in the bidding system of `ours`.

    `ours`, `theirs`: the partnerships of the person and of the opponents. `observations`: one row,
    the decision.
    """
    assert observations.legal is not None
    seen = observations.observation[0]
    ns, ew = _north_south_first(ours, theirs, int(seen[0]))
    auction = int(seen[1]), int(seen[2]), ns.system, ew.system  # dealer, vulnerability, systems
    policy: Any = ours.policy(ns.system, ew.system)
    ranked: dict[int, tuple[float, float | None]]
    if ours.calls is None:
        probabilities = policy.probs(observations)[0]
        ranked = {int(c): (float(probabilities[c]), None) for c in np.flatnonzero(probabilities)}
    else:
        candidates = policy.candidates(observations)[0]
        ranked = {each.call: (each.probability, each.imps) for each in candidates}
    others = [int(c) for c in np.flatnonzero(observations.legal[0]) if c not in ranked]
    advice, before = [], observation.calls_from_observation(seen)
    for call in [*ranked, *others]:
        meaning = auction_simulation.call_meanings([*before, call], *auction)[-1]
        if call in ranked or meaning.rule is not None:
            probability, value = ranked.get(call, (0.0, None))
            advice.append(ActionAdvice(call, probability, value, describe_meaning(meaning)))
    return advice

"""Recorded games as HTML, step by step. A game may register its own format in REPLAYS."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from markupsafe import Markup, escape

from overtrick.core import BehaviouralPolicy, Policy
from overtrick.games import registry
from overtrick.games.presentation import Presentation
from overtrick.reports.html import elements
from overtrick.reports.html.elements import PageSection
from overtrick.storage import game_records
from overtrick.storage.game_records import Games, Move, Step

REPLAYS: dict[str, Callable[[Games, int], Markup]] = {}
"""By game: a function that writes one recorded game, given its number, as HTML."""

RED_SUITS = "♥♦"


def games_section(games: Games, policies: Sequence[Policy] = ()) -> PageSection:
    """Return recorded games as a section of an HTML page.

    `policies`: the players' policies, in the order of `games.players`; at each decision of a policy
    without memory the page shows its action probabilities. Empty: it shows none.

    Raises UserError if a recorded game breaks the rules.
    """
    write = REPLAYS.get(games.game)
    articles = [
        _step_by_step(games, number, policies) if write is None else write(games, number)
        for number in range(len(games.moves))
    ]
    return PageSection("Games, step by step", articles)


def _step_by_step(games: Games, number: int, policies: Sequence[Policy]) -> Markup:
    """Return a recorded game as an HTML list of decisions, each with its observation.

    `number`: the index of the game in `games`. `policies`: as in `games_section`.
    """
    rules = registry.make(games.game, **games.options)
    shown = registry.presentation(rules)
    seats = [f"seat {name}" if name.isdigit() else name for name in shown.seat_names()]
    players = [games.players[player] for player in games.who[number]]
    names = [f"{seat} ({player})" for seat, player in zip(seats, players, strict=True)]
    steps, before = [], list[Move]()
    for step in game_records.steps(games, number):
        player = int(games.who[number, step.move.seat])
        policy = policies[player] if policies else None
        steps.append(
            {
                "name": names[step.move.seat],
                "player": games.players[player],
                "action": rules.action_names[step.move.action],
                "observation": mark_cards(
                    shown.describe_observation(step.observation, before), shown
                ),
                "probabilities": _probabilities(step, policy, rules.action_names),
            }
        )
        before.append(step.move)
    payoffs = ", ".join(
        f"{name} {points:+g}" for name, points in zip(names, games.payoff[number], strict=True)
    )
    return elements.render(
        "replay.html",
        number=1 + number, steps=steps, payoffs=f"{payoffs} {rules.unit}s",
        end=mark_cards(shown.describe_deal(games.deals[number], before), shown),
    )  # fmt: skip


def _probabilities(
    step: Step, policy: Policy | None, actions: tuple[str, ...]
) -> list[tuple[str, float]]:
    """Return the legal actions of a decision with a policy's probabilities, the likeliest first.

    The list is empty for a policy that is unknown or has a memory.
    """
    if not isinstance(policy, BehaviouralPolicy):
        return []
    probs = policy.probs(step.decision)[0]
    assert step.decision.legal is not None  # recorded games have a finite number of actions
    legal = np.flatnonzero(step.decision.legal[0]).tolist()
    found = [(actions[action], float(probs[action])) for action in legal]
    return sorted(found, key=lambda each: -each[1])


def mark_cards(text: str, shown: Presentation) -> Markup:
    """Return a game's text as HTML in which cards look like cards.

    `shown`: the presentation of the game, which made the text.
    """
    if shown.card_pattern is None:
        return escape(text)
    parts, end = [], 0
    for found in shown.card_pattern.finditer(text):
        red = " red" if any(suit in found[0] for suit in RED_SUITS) else ""
        parts += [escape(text[end : found.start()])]
        parts += [Markup('<span class="card{}">{}</span>').format(red, found[0])]
        end = found.end()
    return Markup("").join([*parts, escape(text[end:])])

"""Recorded games as HTML, step by step. A game may register its own format in REPLAYS."""

from __future__ import annotations

from collections.abc import Callable
from html import escape

from overtrick.games import registry
from overtrick.reports.html import elements
from overtrick.reports.html.elements import PageSection
from overtrick.storage import game_records
from overtrick.storage.game_records import Games, Move

REPLAYS: dict[str, Callable[[Games, int], str]] = {}
"""By game: a function that writes one recorded game, given its number, as HTML."""


def games_section(games: Games) -> PageSection:
    """Return recorded games as a section of an HTML page.

    Raises UserError if a recorded game breaks the rules.
    """
    write = REPLAYS.get(games.game, _step_by_step)
    articles = [write(games, number) for number in range(len(games.moves))]
    return PageSection("Games, step by step", articles)


def _step_by_step(games: Games, number: int) -> str:
    """Return a recorded game as an HTML list of decisions, each with its observation.

    `number`: the index of the game in `games`.
    """
    rules = registry.make(games.game, **games.options)
    shown = registry.presentation(rules)
    seats = [f"seat {name}" if name.isdigit() else name for name in shown.seat_names()]
    players = [games.players[player] for player in games.who[number]]
    names = [f"{seat} ({player})" for seat, player in zip(seats, players, strict=True)]
    steps, before = [], list[Move]()
    for step in game_records.steps(games, number):
        action = rules.action_names[step.move.action]
        steps.append(
            f"<li><p><strong>{escape(names[step.move.seat])}: {escape(action)}</strong></p>"
            f"{elements.text(shown.describe_observation(step.observation, before))}</li>\n"
        )
        before.append(step.move)
    end = elements.text(shown.describe_deal(games.deals[number], before))
    payoffs = ", ".join(
        f"{name} {points:+g}" for name, points in zip(names, games.payoff[number], strict=True)
    )
    return (
        f"<article><h3>Game {1 + number}</h3>"
        f'<ol class="steps">{"".join(steps)}<li><p><strong>The end</strong></p>{end}</li></ol>'
        f"<p>{escape(payoffs)} {escape(rules.unit)}s</p></article>\n"
    )

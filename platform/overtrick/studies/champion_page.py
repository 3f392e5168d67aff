"""HTML page of a champion: its card, and games against another player, step by step."""

from __future__ import annotations

from typing import Any

from overtrick.core import UserError
from overtrick.distributed.workers import LocalPool
from overtrick.games import registry
from overtrick.games.bridge.auction.game import Auction
from overtrick.reports.html import elements, replays
from overtrick.reports.html.elements import PageSection
from overtrick.storage.champions import Champion, read_champion
from overtrick.studies import duplicate_match, match


def champion_page(name: str, against: str | None, boards: int | None, seed: int | None) -> str:
    """Return the HTML page of a champion: its card and, in a game of two seats, recorded games.

    `name`: champion:NAME. `against`: the opponent; None: the champion plays itself. `boards`: each
    is played from both seats; None: 3. `seed`: of the games; None: 0. Raises UserError for an
    unknown player, and for one of these options if the champion's games cannot be recorded.
    """
    champion = read_champion(name)
    game = registry.make(champion.card["game"], **champion.card["options"])
    sections = [PageSection("Card", [elements.table(("", ""), _card_rows(champion))])]
    if can_be_recorded(game):
        sections.append(
            _games_section(champion, against or champion.player, boards or 3, seed or 0)
        )
    else:
        for option, value in {"against": against, "boards": boards, "seed": seed}.items():
            if value is not None:
                raise UserError(
                    f"--{option} needs recorded games, and games of {game.name} cannot be recorded"
                )
    return elements.page(champion.player, champion.card["about"], sections)


def can_be_recorded(game: Any) -> bool:
    """Return True for a game whose matches can be recorded.

    It is the auction, or a game of two seats with a finite number of actions that can be replayed.
    """
    playable = game.name in registry.names() and game.actions is not None
    return playable and (game.seats == 2 or game.name == Auction.name)


def _card_rows(champion: Champion) -> list[tuple[str, str]]:
    """Return the rows of a table with a champion's card."""
    card = champion.card
    return [
        ("game", card["game"]),
        ("player", card["about"]),
        ("measured", champion.strength),
        ("measured by", card["check"]["command"]),
        ("trained by", "\n".join(card["commands"])),
        ("seed", str(card["seed"])),
        ("licence", card["licence"]),
    ]


def _games_section(champion: Champion, against: str, boards: int, seed: int) -> PageSection:
    """Play games of a champion against an opponent, and show them."""
    player = champion.player
    if champion.card["game"] == Auction.name:
        pool, silent = LocalPool(), lambda done: None
        auctions = duplicate_match.play_match(player, against, boards, seed, pool, silent)
        return replays.games_section(duplicate_match.recorded_games(auctions))
    match.check_players([against], [])
    played = match.play_match(player, against, None, {}, boards, seed, record=True)
    assert played.games is not None
    return replays.games_section(played.games, played.policies)

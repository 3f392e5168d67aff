"""HTML page of a champion: its card, and games against another player, step by step."""

from __future__ import annotations

from overtrick.distributed.workers import LocalPool
from overtrick.games import registry
from overtrick.games.bridge.auction.game import Auction
from overtrick.reports.html import elements, replays
from overtrick.reports.html.elements import PageSection
from overtrick.storage.champions import Champion, read_champion
from overtrick.storage.game_records import Games
from overtrick.studies import duplicate_match, match


def champion_page(name: str, against: str | None, boards: int, seed: int) -> str:
    """Return the HTML page of a champion, with recorded games.

    `name`: champion:NAME. `against`: the opponent; None: the champion plays itself. `boards`: each
    is played from both seats. Without `against`, games that cannot be recorded are left out, such
    as those of three seats. Raises UserError for an unknown player.
    """
    champion = read_champion(name)
    games = None
    game = registry.make(champion.card["game"])
    playable = game.name in registry.names() and game.actions is not None
    if against is not None or (playable and (game.seats == 2 or game.name == Auction.name)):
        games = _play_games(champion, against or champion.player, boards, seed)
    card = champion.card
    rows = [
        ("game", card["game"]),
        ("player", card["about"]),
        ("measured", champion.strength),
        ("measured by", card["check"]["command"]),
        ("trained by", "\n".join(card["commands"])),
        ("seed", str(card["seed"])),
        ("licence", card["licence"]),
    ]
    sections = [
        PageSection("Card", [elements.table(("", ""), rows)]),
        *([] if games is None else [replays.games_section(games)]),
    ]
    return elements.page(champion.player, card["about"], sections)


def _play_games(champion: Champion, against: str, boards: int, seed: int) -> Games | None:
    """Play games of a champion against an opponent, and return them."""
    player = champion.player
    if champion.card["game"] == Auction.name:
        other = str(duplicate_match.find_bidder(against) or against)
        pool, silent = LocalPool(), lambda done: None
        played = duplicate_match.play_match(player, other, boards, seed, pool, silent)
        return duplicate_match.recorded_games(played)
    match.check_players([against], [])
    return match.play_match(player, against, None, {}, boards, seed, record=True).games

"""Find the champions, the players that come with the package: stored models with a card each.

`champions/NAME/` has the two files of a model, and card.json, which describes it. It contains no
code.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import TypeAdapter

from overtrick.core import UserError, suggestion
from overtrick.core.json_files import ClosedRecord, read_json
from overtrick.games import registry

CHAMPION_PREFIX = "champion:"
FOLDER = Path(__file__).parents[1] / "champions"
CARD_FILE = "card.json"


class ChampionCheck(ClosedRecord):
    """Command that measures a champion's figure again.

    `figure`, `standard_error` and `interval` are dotted keys of its JSON result, such as
    rows.0.made. Both `standard_error` and `interval` are None for an exact figure; otherwise one
    of them is given.
    """

    command: str
    figure: str
    standard_error: str | None
    interval: str | None  # the 95 % interval, as a list of its ends


class ChampionCard(ClosedRecord):
    """Description of a champion and of its measured strength."""

    game: str
    options: dict[str, Any]  # of the game; empty: its defaults
    default: bool  # the default opponent in its game
    about: str  # the player in one sentence
    measure: str  # name of the figure and, if there is one, the opponent
    larger_is_better: bool
    figure: float
    interval: float | None  # half the width of the 95 % interval; None: the figure is exact
    unit: str
    seed: int
    commands: list[str]  # train it again, one command after the other
    check: ChampionCheck
    licence: str


CARD_SCHEMA: TypeAdapter[Any] = TypeAdapter(ChampionCard)


class Champion(NamedTuple):
    """A champion: its name and its card."""

    name: str
    card: ChampionCard

    @property
    def player(self) -> str:
        """Return the name by which commands and jobs call the champion: champion:NAME."""
        return f"{CHAMPION_PREFIX}{self.name}"

    @property
    def strength(self) -> str:
        """Return the measured figure with its interval and unit, in words."""
        interval = "" if self.card["interval"] is None else f" ± {self.card['interval']:.2g}"
        return f"{self.card['measure']}: {self.card['figure']:.3g}{interval} {self.card['unit']}s"


def is_champion(name: str) -> bool:
    """Return True if `name` begins with champion:."""
    return name.startswith(CHAMPION_PREFIX)


def champion_names() -> list[str]:
    """Return the sorted names of all champions, without the prefix champion:."""
    return sorted(path.parent.name for path in FOLDER.glob(f"*/{CARD_FILE}"))


def champion_folder(name: str) -> Path:
    """Return the folder of a champion's model. Raises UserError for an unknown champion.

    `name`: with or without the prefix champion:.
    """
    short, known = name.removeprefix(CHAMPION_PREFIX), champion_names()
    if short not in known:
        raise UserError(f"no champion '{short}': {suggestion(short, known, CHAMPION_PREFIX)}")
    return FOLDER / short


def read_champion(name: str) -> Champion:
    """Read the card of a champion. Raises UserError for an unknown champion, or a damaged card.

    `name`: with or without the prefix champion:.
    """
    folder = champion_folder(name)
    card = read_json(folder / CARD_FILE, CARD_SCHEMA, "install the package again")
    return Champion(folder.name, card)


def champions() -> list[Champion]:
    """Read the cards of all champions, sorted by game and name, each game's default first."""
    found = [read_champion(name) for name in champion_names()]
    return sorted(found, key=lambda each: (each.card["game"], not each.card["default"], each.name))


def champion_of(game: str, options: Mapping[str, Any], other_than: str = "") -> str | None:
    """Return the first champion of a game with these options, as champion:NAME; None if none.

    The order is that of `champions()`. Options that make no difference to a player are ignored,
    see `registry.player_options`. `other_than`: a champion to skip, as champion:NAME.
    """
    needed = registry.player_options(game, options)
    for each in champions():
        candidate = each.card["game"] == game and each.player != other_than
        if candidate and registry.player_options(game, each.card["options"]) == needed:
            return each.player
    return None


def default_champion(game: str, options: Mapping[str, Any]) -> str | None:
    """Return the default opponent of a game as champion:NAME; None if no champion is one.

    `options`: of the game, with which a champion must have been trained.
    """
    player = champion_of(game, options)
    return player if player is not None and read_champion(player).card["default"] else None

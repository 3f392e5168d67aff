"""Registrations of the poker games in the registry of games."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from overtrick.core import BehaviouralPolicy
from overtrick.games.poker import rules
from overtrick.games.poker import scripted_players as players
from overtrick.games.poker.enumerable_game import EnumerablePoker
from overtrick.games.poker.game import Poker
from overtrick.games.poker.holdem.abstract_game import AbstractHoldem
from overtrick.games.poker.holdem.percentile_abstraction import PercentileAbstraction
from overtrick.games.poker.presentation import PokerPresentation
from overtrick.games.poker.scripted_families import (
    DrawPlayer,
    EquityPlayer,
    PercentilePlayer,
    scripted_families,
)
from overtrick.games.poker.single_game import SinglePokerGame
from overtrick.games.spec import GameSpec


def _fallbacks(game: Poker) -> list[BehaviouralPolicy]:
    """Return policies that a local best response may follow after its next action.

    The first always calls or checks, the second always checks or folds.
    """
    return [players.Caller(game), players.Folder(game)]


def _scripted_families(game: Poker) -> Mapping[str, DrawPlayer]:
    """Return the families of scripted players of a poker game of two seats."""
    if game.seats != 2:
        return {}
    if isinstance(game, EnumerablePoker):
        return scripted_families(game, EquityPlayer)
    return scripted_families(game, PercentilePlayer) if game.rules.best_five else {}


def _hand_abstraction(game: Poker) -> PercentileAbstraction | None:
    """Return the abstraction of limit hold'em by percentiles of hands."""
    return PercentileAbstraction(game) if game.rules == rules.LIMIT_HOLDEM else None


def _single_game(game: Poker) -> Any:
    """Return the engine that plays a single game fast, or None if it does not support the game.

    It does not support games whose observations have the index of the information set.
    """
    return SinglePokerGame(game) if game.infosets is None else None


def _spec(kind: type, dialect: rules.PokerRules) -> GameSpec:
    """Return the registration of a poker game of class `kind` with the rules `dialect`."""
    return GameSpec(
        dialect.name,
        kind,
        (dialect,),
        scripted_players=players.scripted_players,
        scripted_families=_scripted_families,
        fallback_policies=_fallbacks,
        hand_abstraction=_hand_abstraction,
        single_game=_single_game,
        presentation=PokerPresentation,
    )


SPECS = (
    *(_spec(EnumerablePoker, each) for each in rules.SMALL),
    _spec(Poker, rules.LIMIT_HOLDEM),
    # single_game: Poker with the rules of this game has its name too
    GameSpec(AbstractHoldem.name, AbstractHoldem, playable=False, single_game=_single_game),
)

"""Study a Mini-Bridge declarer: show its card play, and how often it follows rules of thumb."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from overtrick.config.job_file import GameChoice
from overtrick.core import Deals, Policy, select_rows
from overtrick.distributed.workers import RngStream, generator
from overtrick.evaluation import reference_opponents
from overtrick.evaluation.cardplay import card_game, with_trick_scoring
from overtrick.evaluation.game_cache import cached_opponent
from overtrick.games.bridge import diagram
from overtrick.games.bridge.cardplay import play_records, rule_defenders
from overtrick.policies.rollout import play
from overtrick.solvers.lookahead.pimc import PimcPolicy


class CardplayStudy(NamedTuple):
    """A declarer's card play in some deals, and how often the declarer followed rules of thumb."""

    hands: list[str]  # one text for each deal, with the card play
    style: list[
        dict[str, Any]
    ]  # rule, asked (decisions to which it applies), followed (share, or None)


def study_style(
    choice: GameChoice,
    declarer: str,
    against: str,
    worlds: int,
    boards: int,
    deals: int,
    seed: int,
    signs: bool,
) -> CardplayStudy:
    """Play deals of Mini-Bridge, and measure how often the declarer follows rules of thumb.

    The first deals are also formatted as text.

    - `choice`: the game and its options.
    - `declarer`, `against`: the declarer and the defenders, each a player by name or a model
      folder.
    - `worlds`: if above 0, PIMC search plays the declarer. It samples this many deals per
      decision, and `declarer` is its rollout policy.
    - `boards`: number of deals shown as text.
    - `deals`: number of deals in which the declarer's plays are compared with the rules.
    - `signs`: show suits as symbols, not letters.

    Raises UserError for an unknown player.
    """
    game = card_game(with_trick_scoring(choice))
    for name in (declarer, against):
        reference_opponents.check_opponent(name, game, None)
    guide, defence = cached_opponent(choice, declarer), cached_opponent(choice, against)
    player: Policy = PimcPolicy(game, defence, guide, worlds) if worlds else guide
    deal_rng, play_rng = generator(seed, RngStream.EVALUATE).spawn(2)
    dealt: Deals = game.deal(max(boards, deals), deal_rng)
    batch = play(game, (player, defence), dealt, play_rng).batch
    cards = play_records.cards_in_play_order(batch)
    hands = [
        f"{diagram.deal_diagram(deal, signs)}\n\n{diagram.format_play(deal, played, signs)}"
        for deal, played in zip(dealt[:boards], cards[:boards], strict=True)
    ]
    own = np.flatnonzero((batch.seat == 0) & (batch.game < deals))
    rules = rule_defenders.rule_agreement(select_rows(batch.observations(), own), batch.action[own])
    style = [
        {
            "rule": name.replace("_", " "),
            "asked": asked,
            "followed": followed / asked if asked else None,
        }
        for name, (asked, followed) in rules.items()
    ]
    return CardplayStudy(hands, style)

"""What a player of the cards does: deals with its line of play, and how often it keeps to rules."""

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


class Shown(NamedTuple):
    """Deals as text, and the style of the declarer."""

    hands: list[str]
    style: list[dict[str, Any]]  # rule, asked, followed (share)


def shown(
    choice: GameChoice, declarer: str, against: str, worlds: int, boards: int, deals: int,
    seed: int, signs: bool,
) -> Shown:  # fmt: skip
    """So many deals with a declarer's play, and its style over so many; both sides by name, or as
    the folder of a model. With worlds the declarer is the guide of a search, who imagines so many
    deals at each decision. Raises Refused."""
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
    asked = rule_defenders.rule_agreement(select_rows(batch.observations(), own), batch.action[own])
    return Shown(
        hands,
        [
            {"rule": name.replace("_", " "), "asked": asks, "followed": kept / max(asks, 1)}
            for name, (asks, kept) in asked.items()
        ],
    )

"""Trainer `bridge_card_play`: compare card players of bridge on the same boards; trains nothing.

Each iteration plays further boards, so that a long comparison can be stopped and resumed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from numpy.random import Generator
from pydantic import Field, field_validator, model_validator

from overtrick.config.job_file import Job
from overtrick.config.sections import Count, Opponent, Section
from overtrick.core import Array, Deals, Policy, UserError
from overtrick.distributed.workers import RngStream, WorkerPool, array_chunks, generator
from overtrick.evaluation import bridge_boards
from overtrick.evaluation.standard_error import standard_error
from overtrick.games.bridge import auction_rules, contract_results, double_dummy
from overtrick.games.bridge.auction.game import DEAL_VULNERABLE
from overtrick.games.bridge.auction.network_bidder import SystemBidder
from overtrick.games.bridge.cardplay import kernels
from overtrick.games.bridge.cardplay.careful_player import CarefulPlayer
from overtrick.games.bridge.cardplay.rule_defenders import RuleDefender
from overtrick.games.bridge.cards import CARDS
from overtrick.games.bridge.game import Bridge
from overtrick.games.bridge.players.board_player import BoardPlayer, BoardPolicy
from overtrick.games.bridge.players.card_players import BEST_SHARE, MOVES, RULE_SHARE
from overtrick.games.bridge.players.double_dummy_player import DoubleDummyPlayer
from overtrick.games.bridge.players.search_player import DEPTH, WORLDS, SearchPlayer
from overtrick.games.bridge.players.worlds import PROPOSALS, Beliefs
from overtrick.games.bridge.system import loader
from overtrick.games.bridge.system.loader import System
from overtrick.training.base_trainer import BaseTrainer, Metrics, Rows, register

SHARD = 2  # boards of one worker task
NOT_PLAYED = -1000


class CardPlayerConfig(Section):
    """Settings of one card player."""

    player: Literal["search", "careful", "rules"] = "search"
    """search: double dummy on sampled deals; careful, rules: scripted players."""

    worlds: Count = WORLDS
    """Deals sampled for each decision of a search."""

    seconds: float | None = Field(default=None, gt=0, le=3600)
    """Time for a decision of a search, which then samples as many deals as it allows, in place of
    `worlds`. Its results depend on the speed of the machine."""

    proposals: Count = PROPOSALS
    """Deals drawn uniformly, from which the search resamples its worlds by weight."""

    calls: bool = True
    """Weight deals by whether the players' system makes the calls with these hands."""

    signals: bool = True
    """Give and read the signals in defence that the players' system agrees on. Needs `calls`."""

    rule_share: float = Field(default=RULE_SHARE, ge=0, lt=1)
    """Probability, in the weights of deals, that a hidden hand plays as `careful` does."""

    best_share: float = Field(default=BEST_SHARE, ge=0, lt=1)
    """Probability, in the weights of deals, that a hidden hand plays a card that is best double
    dummy in the deal; from the fourth trick on. 0: do not judge cards so."""

    goal: Literal["points", "made", "tricks"] = "points"
    """Mean result that a search maximises: points, contracts made (for defenders: defeated), or
    tricks."""

    moves: int = Field(default=MOVES, ge=1, le=4)
    """Moves of the declaring side that alpha-mu chooses alike in all deals. 1: no alpha-mu."""

    depth: int = Field(default=DEPTH, ge=1, le=13)
    """Alpha-mu begins once each hand holds at most this many cards."""

    @model_validator(mode="after")
    def _used(self) -> CardPlayerConfig:
        fields = type(self).model_fields
        changed = {key for key in fields if getattr(self, key) != fields[key].default}
        if self.player != "search":
            for key in sorted(changed - {"player"}):
                raise ValueError(f"{key} is a key of player: search, not of {self.player}")
        shares = self.rule_share + self.best_share
        if shares >= 1:
            raise ValueError(
                f"rule_share {self.rule_share} and best_share {self.best_share} together are "
                f"{shares:g}: they must be below 1"
            )
        for key, useless, why in (
            ("worlds", self.seconds is not None, "seconds is given"),
            ("depth", self.moves == 1, "moves is 1"),
            ("proposals", not self.calls and shares == 0, "deals are not weighted"),
            ("signals", not self.calls, "calls is false"),
        ):
            if key in changed and useless:
                raise ValueError(f"{key} has no effect if {why}: leave it out")
        return self


class BridgeCardPlay(Section):
    """Settings: the card players, whom they meet, and the boards."""

    players: dict[str, CardPlayerConfig] = Field(min_length=1)
    """Card players by name. The others are compared with the first, board by board."""

    roles: tuple[Literal["declarer", "defenders", "duplicate"], ...] = Field(
        default=("declarer", "defenders"), min_length=1
    )
    """Roles in which each player is measured: declarer, defenders (against `opponents`), or all
    four hands in duplicate against the first player."""

    opponents: Literal["double_dummy", "careful", "rules"] = "double_dummy"
    """The other side. double_dummy: it sees all hands, and plays the lowest of the best cards."""

    system: Opponent = "natural"
    """Bidding system of all four players."""

    boards: Count = 20
    """Boards per iteration, all with a contract."""

    @model_validator(mode="after")
    def _roles_are_useful(self) -> BridgeCardPlay:
        for role in self.roles:
            if self.roles.count(role) > 1:
                raise ValueError(f"roles names {role} twice: leave one out")
        if self.roles == ("duplicate",) and self.changed_keys(["opponents"]):
            raise ValueError("opponents has no effect if the only role is duplicate: leave it out")
        for name, player in self.players.items() if self.roles == ("defenders",) else ():
            if changed := player.changed_keys(["moves", "depth"]):
                raise ValueError(
                    f"players.{name}.{changed[0]} has no effect if the only role is defenders, "
                    "because only a declarer uses alpha-mu: leave it out"
                )
        return self

    @field_validator("system")
    @classmethod
    def _system_exists(cls, name: str) -> str:
        loader.load(name)
        return name


class BridgeCardPlayJob(Job):
    """Job file of the trainer `bridge_card_play`: comparison of card players of bridge."""

    trainer: Literal["bridge_card_play"]
    bridge_card_play: BridgeCardPlay


def _score(rows: Rows) -> float:
    """Return the mean points or IMPs of the last player in the last role."""
    return float(rows[-1]["points"])


@register("bridge_card_play", BridgeCardPlayJob, _score)
class BridgeCardPlayTrainer(BaseTrainer[BridgeCardPlayJob]):
    """Trainer without learning: card players play the same boards, bid by one system.

    Its arrays have an entry for each board of the job. Until a board is played, it is NOT_PLAYED,
    or 0 in `contracts`:

    results  (B, R, P) by role and player: tricks of the declaring side, or IMPs in duplicate
    perfect  (B,) double-dummy tricks of the declaring side
    contracts  (B, 5) declarer, level, strain, doubled; vulnerability of the deal
    """

    saved = ("iteration", "results", "perfect", "contracts")
    stateful = ()

    def __init__(self, job: BridgeCardPlayJob, pool: WorkerPool) -> None:
        super().__init__(job, pool)
        section = job.bridge_card_play
        boards = job.stop.iterations * section.boards
        shape = (boards, len(section.roles), len(section.players))
        self.results = np.full(shape, NOT_PLAYED, np.int16)
        self.perfect = np.full(boards, NOT_PLAYED, np.int16)
        self.contracts = np.zeros((boards, 5), np.int8)

    def train_iteration(self, rng: Generator, progress: float) -> Metrics:
        """Play the boards of one iteration with every player in every role.

        Return each player's mean points above double dummy so far, by role; in duplicate IMPs.
        """
        section = self.job.bridge_card_play
        system, first = loader.load(section.system), (self.iteration - 1) * section.boards
        deal_rng, play_rng = rng.spawn(2)
        deals = bridge_boards.contract_deals(system, section.boards, deal_rng)
        parts = self.pool.map(_play, section, array_chunks(SHARD, deals), play_rng)
        rows = slice(first, first + section.boards)
        results, perfect = self.results.copy(), self.perfect.copy()
        contracts = self.contracts.copy()
        results[rows] = np.concatenate([each for each, _ in parts])
        perfect[rows] = np.concatenate([each for _, each in parts])
        reached = bridge_boards.contracts_of(system, deals)
        contracts[rows] = np.column_stack([*reached, deals[:, DEAL_VULNERABLE]])
        self.results, self.perfect, self.contracts = results, perfect, contracts
        return {
            f"{row['player']}/{row['role']}_{row['unit']}": row["points"] for row in self.rows()
        }

    def model(self) -> dict[str, Array]:
        """Return the results of all boards, stored in place of weights."""
        return {"results": self.results, "perfect": self.perfect, "contracts": self.contracts}

    @staticmethod
    def validate(job: BridgeCardPlayJob) -> None:
        """Raise UserError for another game than bridge, or options of the game."""
        if job.game.name != Bridge.name or job.game.options:
            raise UserError("the trainer bridge_card_play plays the game bridge without options")

    @staticmethod
    def evaluate_model(
        job: BridgeCardPlayJob, weights: Mapping[str, Array], pool: WorkerPool, rng: Generator
    ) -> Rows:
        """Return a row for each role and player; nothing is played again.

        As declarer or defenders, a row has the share of contracts made, played and double dummy,
        and the side's mean tricks and points per board above double dummy; in duplicate, the mean
        IMPs against the first player. `difference_to_first` is the mean difference of the row's
        points to the first player's on the same boards. Raises UserError for other
        arrays than those of `model`.
        """
        section = job.bridge_card_play
        boards = job.stop.iterations * section.boards
        shape = (boards, len(section.roles), len(section.players))
        names = ("results", "perfect", "contracts")
        results, perfect, columns = (weights.get(name, np.zeros(0)) for name in names)
        if (results.shape, perfect.shape, columns.shape) != (shape, shape[:1], (boards, 5)):
            raise UserError(f"the model is damaged: its results must have the shape {shape}")
        played = np.flatnonzero(perfect != NOT_PLAYED)
        if not len(played):
            raise UserError("no board has been played yet")
        results, perfect = (each[played].astype(np.int64) for each in (results, perfect))
        *contract, vulnerable = columns[played].astype(np.int64).T
        contracts = auction_rules.Contracts(*contract)
        rows = []
        for at, role in enumerate(section.roles):
            above = np.stack(
                [
                    _points_above(role, results[:, at, k], perfect, contracts, vulnerable)
                    for k in range(len(section.players))
                ]
            )
            for k, name in enumerate(section.players):
                against = above[k] - above[0]
                rows.append(
                    {
                        "role": role,
                        "player": name,
                        "boards": len(played),
                        **_tricks(role, results[:, at, k], perfect, contracts),
                        "points": float(above[k].mean()),
                        "unit": "imps" if role == "duplicate" else "points",
                        "standard_error": standard_error(above[k]),
                        "difference_to_first": float(against.mean()) if k else None,
                        "difference_standard_error": standard_error(against) if k else None,
                    }
                )
        return rows


def _tricks(
    role: str, tricks: Array, perfect: Array, contracts: auction_rules.Contracts
) -> dict[str, Any]:
    """Return the columns of a row about tricks: none in duplicate.

    tricks, perfect: (B,) tricks of the declaring side, played and double dummy.
    """
    if role == "duplicate":
        return {"made": None, "double_dummy": None, "tricks": None}
    needed, sign = contracts.level + 6, 1 if role == "declarer" else -1
    return {
        "made": float((tricks >= needed).mean()),
        "double_dummy": float((perfect >= needed).mean()),
        "tricks": float(sign * (tricks - perfect).mean()),
    }


def _points_above(
    role: str,
    result: Array,
    perfect: Array,
    contracts: auction_rules.Contracts,
    vulnerable: Array,
) -> Array:
    """Return (B,) the points of the player's side above double dummy; in duplicate its IMPs.

    result: (B,) tricks of the declaring side, or IMPs. vulnerable: (B,) as in VULNERABILITIES.
    """
    if role == "duplicate":
        return result
    played, double = (
        contract_results.north_south_points(contracts, vulnerable, tricks)
        for tricks in (result, perfect)
    )
    declaring = np.where(contracts.declarer % 2 == 0, 1, -1)
    return (played - double) * declaring * (1 if role == "declarer" else -1)


def _card_player(config: CardPlayerConfig, system: System) -> Policy:
    """Return a card player for boards that all four players bid by one system."""
    if config.player == "search":
        systems = (system, system) if config.calls else None
        beliefs = Beliefs(
            systems, config.signals, rule_share=config.rule_share, best_share=config.best_share,
            proposals=config.proposals,
        )  # fmt: skip
        return SearchPlayer(
            config.worlds, beliefs, config.goal, config.moves, config.depth, config.seconds
        )
    scripted = CarefulPlayer() if config.player == "careful" else RuleDefender()
    return BoardPolicy(SystemBidder(system, system), scripted)


def _play(rng: Generator, section: BridgeCardPlay, deals: Deals) -> tuple[Array, Array]:
    """Play boards; return the results (B, R, P) and the double-dummy tricks (B,).

    All players start from the same random state, so that identical players get identical results.
    """
    system = loader.load(section.system)
    bidder, contracts = SystemBidder(system, system), bridge_boards.contracts_of(system, deals)
    perfect = double_dummy.contract_tricks(deals[:, :CARDS], contracts.declarer, contracts.strain)
    others: dict[str, Policy] = {
        "double_dummy": DoubleDummyPlayer(deals),
        "careful": BoardPolicy(bidder, CarefulPlayer()),
        "rules": BoardPolicy(bidder, RuleDefender()),
    }
    opponents = others[section.opponents]
    players = [_card_player(each, system) for each in section.players.values()]
    results = np.zeros((len(deals), len(section.roles), len(players)), np.int16)
    (seed,) = rng.integers(2**32, size=1)
    for at, role in enumerate(section.roles):
        for k, player in enumerate(players):
            child = generator(int(seed), RngStream.EVALUATE, at)
            if role == "duplicate":
                found = bridge_boards.duplicate_imps(player, players[0], system, deals, child)
            else:
                pair = (player, opponents) if role == "declarer" else (opponents, player)
                state = bridge_boards.play_boards(BoardPlayer(bidder, *pair), deals, child)
                found = state.progress[:, kernels.TRICKS_WON]
            results[:, at, k] = found
    return results, perfect

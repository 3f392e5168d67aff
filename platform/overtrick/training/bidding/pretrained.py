"""The two networks of a bidder before they learn from play, and how well they bid after it."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.random import Generator
from pydantic import Field

from overtrick.config.job_file import Count, FolderPath, ModelPath, Opponent, Section
from overtrick.core import Array, Deals, UserError
from overtrick.datasets.bidding_examples import in_test_split
from overtrick.distributed.workers import RngStream, WorkerPool, generator
from overtrick.evaluation import system_agreement
from overtrick.evaluation.bidders import (
    BiddingSystemJob,
    Side,
    bid_auctions,
    imps_between,
    load_side,
    rotate_deals,
    sample_deals,
)
from overtrick.games.bridge.auction import stored_networks
from overtrick.games.bridge.auction.game import Auction
from overtrick.games.bridge.auction.network_bidder import BiddingNetwork
from overtrick.games.bridge.cards import CARDS, hand_bits
from overtrick.games.bridge.system import loader
from overtrick.reports import bar_charts
from overtrick.storage import locate, model_files
from overtrick.training import scores
from overtrick.training.base_trainer import History
from overtrick.training.bidding.supervised import NetworkTraining

SHARD = 250  # deals of one shard, whatever the number of workers
PRETRAINED = "pretrained"
IMPS_METRIC = scores.IMPS_AGAINST_PRETRAINED
"""What a measurement calls the IMPs that are won from the pretrained."""


class BiddingEvaluation(Section):
    """How the bidder is judged, on deals that it never met."""

    every: Count = Field(default=10, description="iterations between measurements")
    boards: int = Field(default=1000, ge=2, description="duplicate boards of a measurement")
    final_boards: int = Field(default=10_000, ge=2, description="of the last one")
    opponents: tuple[Opponent, ...] = Field(
        default=("natural", "precision"),
        description="bidding systems and folders of bidders that it meets",
    )


class BidderTrainingJob(BiddingSystemJob):
    """What learning from play starts with, and how it is judged."""

    call_model: ModelPath = Field(description="the model that proposes calls")
    value_model: ModelPath = Field(description="the model that values them, as it is before")
    deals: FolderPath = Field(description="a Parquet file of deals with double-dummy tricks")
    network: NetworkTraining = NetworkTraining()
    evaluate: BiddingEvaluation = BiddingEvaluation()


def check_bidding_job(job: BidderTrainingJob, most: int) -> None:
    """Raise UserError for another game, or for models, deals or opponents that do not serve."""
    if job.game.name != Auction.name:
        raise UserError(f"the {job.trainer} trainer is for the auction, not for {job.game.name}")
    load_networks(job)
    for part in split_deals(job, most):
        if len(part) < 2:
            raise UserError(f"{job.deals} has too few deals to keep some of them for judging")
    for name in job.evaluate.opponents:
        load_side(name)


def load_networks(job: BidderTrainingJob) -> tuple[BiddingNetwork, BiddingNetwork]:
    """Both networks as they are before. Raises UserError."""
    found, own = [], loader.load(job.system)
    stored_networks.check_system_version(job.system_version, own, "the bidder of this job")
    for name, place in (("calls", job.call_model), ("imps", job.value_model)):
        folder = locate.model_folder(place)
        stored = model_files.load(folder, Auction.name)
        network = stored_networks.load_network(stored.weights, name, stored.job, str(folder))
        if network is None:
            raise UserError(
                f"the model in {folder} has no network of {name}: train one with learn: {name}"
            )
        if network.activation != job.network.activation:
            raise UserError(
                f"network.activation is {job.network.activation}, but {folder} has "
                f"{network.activation}"
            )
        if (bids := stored_networks.job_value(stored.job, str(folder), "system")) != job.system:
            raise UserError(f"system is {job.system}, but the model in {folder} bids {bids}")
        stored_networks.load_system(stored.job, str(folder))  # raises for changed rules
        found.append(network)
    return found[0], found[1]


def split_deals(job: BidderTrainingJob, most: int) -> tuple[Deals, Deals]:
    """The deals to learn from, and those for judging, of at most so many of the file."""
    deals = sample_deals(job.deals, most, job.seed)
    held = in_test_split(hand_bits(deals[:, :CARDS]))
    return deals[~held], deals[held]


def evaluation_boards(job: BidderTrainingJob, kept: Deals, boards: int) -> Deals:
    """So many of the deals kept for judging, or all of them: the same whenever it is asked."""
    rng = generator(job.seed, RngStream.JUDGE)
    boards = min(boards, len(kept))
    return rotate_deals(kept[rng.choice(len(kept), boards, replace=False)], rng)


def match_row(side: Side, other: Side, deals: Deals, crew: WorkerPool) -> dict[str, Any]:
    """What a side wins from another on some deals."""
    shards = [(deals[k : k + SHARD],) for k in range(0, len(deals), SHARD)]
    won = np.concatenate(crew.map(_meet, (side, other), shards, generator(0)))
    error = float(won.std(ddof=1) / np.sqrt(len(won)))
    return {
        "opponent": other.name, "boards": len(won), "mean": float(won.mean()),
        "standard_error": error,
    }  # fmt: skip


def truthful_share(side: Side, deals: Deals, crew: WorkerPool) -> float:
    """The share of calls but passes, of a side with itself, at which the hand has the points and
    lengths that its calls so far show."""
    cut = [(deals[k : k + SHARD],) for k in range(0, len(deals), SHARD)]
    calls = np.concatenate(crew.map(_bid, side, cut, generator(0)))
    cards, dealer, vulnerable = deals[:, :CARDS], deals[:, CARDS], deals[:, CARDS + 1]
    of = system_agreement.RecordedAuctions(hand_bits(cards), dealer, vulnerable, calls, calls >= 0)
    rows = system_agreement.meaning_table(
        side.system, of, system_agreement.follow_system(side.system, of)
    )
    return float(rows[-1]["true"])


def _bid(rng: Generator, side: Side, deals: Deals) -> Array:
    """(G, L) its calls with itself."""
    cards, dealer, vulnerable = deals[:, :CARDS], deals[:, CARDS], deals[:, CARDS + 1]
    return bid_auctions(side, side, cards, dealer, vulnerable, rng)


def learning_curve(history: History, length: str) -> dict[str, Figure]:
    """How what it won from the pretrained rose with another metric; no figure of no measurement."""
    told = [
        (m[length], m[IMPS_METRIC], m[f"{IMPS_METRIC}_se"]) for _, m in history if IMPS_METRIC in m
    ]
    if not told:
        return {}
    return {"imps": bar_charts.against(told, length, f"IMPs a board against {PRETRAINED}")}


def _meet(rng: Generator, sides: tuple[Side, Side], deals: Deals) -> Array:
    return imps_between(*sides, deals, rng)

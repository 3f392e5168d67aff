"""Common code of trainers that improve a pretrained bidder: networks, deals, and match evaluation.

A bidder has a policy network, which proposes calls, and a value network, which predicts the IMPs of
a call against par. Both are trained by the supervised trainer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from numpy.random import Generator
from pydantic import BeforeValidator, Field

from overtrick.config.sections import Count, DataPath, ModelPath, Opponent, Section
from overtrick.core import Array, Deals, UserError
from overtrick.core.checkpoints import prefixed, unprefixed
from overtrick.datasets.bidding_examples import in_test_split
from overtrick.datasets.bidding_examples_build import TricksSource
from overtrick.distributed.workers import RngStream, WorkerPool, array_chunks, generator
from overtrick.evaluation import bidders, system_agreement
from overtrick.evaluation.bidders import Side
from overtrick.games.bridge.auction import stored_networks
from overtrick.games.bridge.auction.game import DD_TABLE, Auction
from overtrick.games.bridge.auction.network_bidder import BiddingNetwork
from overtrick.games.bridge.cardplay.played_tables import play_every_contract
from overtrick.games.bridge.cards import CARDS, hand_bits
from overtrick.games.bridge.system import loader
from overtrick.reports import bar_charts
from overtrick.storage import locate, model_files
from overtrick.training import scores
from overtrick.training.base_trainer import History
from overtrick.training.bidding.bidding_system_job import BiddingSystemJob
from overtrick.training.bidding.supervised import NetworkTraining

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHARD = 250  # deals per shard
PRETRAINED = "pretrained"
UNUSED_VALUES = "baseline"  # prefix of a value network that its model does not use for bidding
IMPS_METRIC = scores.IMPS_AGAINST_PRETRAINED


class BiddingEvaluation(Section):
    """Settings of a bidder's evaluation by duplicate matches on deals that training never uses."""

    every: Count = 10
    """Iterations between evaluations."""

    boards: int = Field(default=1000, ge=2)
    """Number of duplicate boards of an evaluation during training."""

    final_boards: int = Field(default=10_000, ge=2)
    """Number of duplicate boards of the final evaluation."""

    opponents: tuple[Opponent, ...] = ("natural", "precision")
    """Opponents: names of bidding systems, or folders of bidding models."""


class BidderTrainingJob(BiddingSystemJob):
    """Job file of a trainer that improves a pretrained bidder by reinforcement learning."""

    call_model: ModelPath
    """Pretrained model of the policy network, which proposes calls."""

    value_model: ModelPath
    """Pretrained model of the value network, which predicts IMPs."""

    deals: Annotated[
        tuple[DataPath, ...],
        Field(min_length=1),
        BeforeValidator(lambda files: [files] if isinstance(files, str) else files),
    ]
    """Parquet file of deals with double-dummy tricks, or a list of such files."""

    tricks: TricksSource = "double_dummy"
    """Tricks that score contracts in training. double_dummy: those of the files. careful: those of
    `careful` players on both sides, who do not see hidden hands. Evaluations are double dummy.
    """

    network: NetworkTraining = NetworkTraining()
    evaluate: BiddingEvaluation = BiddingEvaluation()


def check_bidding_job(job: BidderTrainingJob, max_deals: int, unused_values: bool = False) -> None:
    """Raise UserError for another game than the auction, or invalid models, deals or opponents.

    `max_deals`: the largest number of deals that the trainer samples from the job's files.
    `unused_values`: as in `load_networks`.
    """
    if job.game.name != Auction.name:
        raise UserError(f"the {job.trainer} trainer is for the auction, not for {job.game.name}")
    load_networks(job, unused_values)
    if min(map(len, split_deals(job, max_deals))) < 2:
        raise _too_few(job)
    for name in job.evaluate.opponents:
        bidders.load_side(name)


def load_networks(
    job: BidderTrainingJob, unused_values: bool = False
) -> tuple[BiddingNetwork, BiddingNetwork]:
    """Load the pretrained policy network and value network of a job.

    Raises UserError if a model does not contain the network, or has another activation function or
    bidding system than the job. `unused_values`: also accept a value network that its model does
    not use for bidding.
    """
    networks, system = [], loader.load(job.system)
    stored_networks.check_system_version(job.system_version, system, "the bidder of this job")
    for name, place in (("calls", job.call_model), ("imps", job.value_model)):
        folder = locate.model_folder(place)
        stored = model_files.load(folder, Auction.name)
        weights, unused = stored.weights, unprefixed(UNUSED_VALUES, stored.weights)
        if unused_values and unused and not unprefixed("imps", weights):
            weights = {**weights, **prefixed("imps", unused)}
        network = stored_networks.load_network(weights, name, stored.job, str(folder))
        if network is None:
            raise UserError(
                f"the model in {folder} has no network of {name}: train one with target: {name}"
            )
        if network.activation != job.network.activation:
            raise UserError(
                f"network.activation is {job.network.activation}, but {folder} has "
                f"{network.activation}"
            )
        other = stored_networks.job_value(stored.job, str(folder), "system", str)
        if other != job.system:
            raise UserError(f"system is {job.system}, but the model in {folder} bids {other}")
        stored_networks.load_system(stored.job, str(folder))  # raises if its rules have changed
        networks.append(network)
    return networks[0], networks[1]


def split_deals(job: BidderTrainingJob, max_deals: int) -> tuple[Deals, Deals]:
    """Sample at most `max_deals` deals of the job's files; split them for training and evaluation.

    Returns two arrays of deals (G, 74): the seat that holds each of the 52 cards, dealer,
    vulnerability and 20 double-dummy tricks. A hash of the hands decides which deals are for
    evaluation.
    """
    deals = bidders.sample_deals(job.deals, max_deals, job.seed)
    test = in_test_split(hand_bits(deals[:, :CARDS]))
    return deals[~test], deals[test]


def scored_deals(job: BidderTrainingJob, deals: Deals) -> Deals:
    """Return training deals (G, 74) with the tricks that `job.tricks` scores their contracts by."""
    if job.tricks == "double_dummy":
        return deals
    scored = deals.copy()
    tables = play_every_contract(deals[:, :CARDS], job.tricks)
    scored[:, DD_TABLE:] = tables.reshape(len(deals), -1)
    return scored


def _too_few(job: BidderTrainingJob) -> UserError:
    return UserError(f"{', '.join(job.deals)}: too few deals to keep some of them for evaluation")


def evaluation_boards(job: BidderTrainingJob, test_deals: Deals, boards: int) -> Deals:
    """Sample the boards (G, 74) of a match from the deals that are kept for evaluation.

    A board is a deal of `test_deals`, rotated by a random number of seats, with random dealer and
    vulnerability. Its columns are those of `split_deals`. Every call for the same job gives the
    same boards. `boards`: the number of boards; all deals are used if there are fewer. Raises
    UserError if there are none.
    """
    if not len(test_deals):
        raise _too_few(job)
    rng = generator(job.seed, RngStream.EVALUATE)
    boards = min(boards, len(test_deals))
    return bidders.rotate_deals(test_deals[rng.choice(len(test_deals), boards, replace=False)], rng)


def evaluation_opponents(job: BidderTrainingJob, pretrained: Side) -> list[Side]:
    """Return the bidder `pretrained`, then the opponents in the job's section `evaluate`."""
    return [pretrained, *map(bidders.load_side, job.evaluate.opponents)]


def match_row(side: Side, other: Side, deals: Deals, pool: WorkerPool) -> dict[str, Any]:
    """Play a duplicate match of two partnerships on deals (G, 74); return a row of results.

    The columns of a deal are those of `split_deals`. The row of results has the opponent's name,
    the number of boards, and the mean and standard error of the IMPs per board that `side` wins
    against `other`.
    """
    won = np.concatenate(
        pool.map(_play_match, (side, other), array_chunks(SHARD, deals), generator(0))
    )
    return {
        "opponent": other.name,
        "boards": len(won),
        "mean": float(won.mean()),
        "standard_error": float(won.std(ddof=1) / np.sqrt(len(won))),
    }


def imps_metrics(row: dict[str, Any], name: str = IMPS_METRIC) -> dict[str, float]:
    """Convert a row of `match_row` to metrics: the mean IMPs, and their standard error.

    `name`: name of the mean; the standard error is NAME_se.
    """
    return {name: row["mean"], f"{name}_se": row["standard_error"]}


def truthful_share(side: Side, deals: Deals, pool: WorkerPool) -> float:
    """Compute the share of a bidder's calls (without passes) whose meaning fits the hand.

    The bidder's own bidding system defines the meaning of calls. A call's meaning fits if the hand
    has the points and suit lengths that the player's calls so far show. The bidder (`side`) bids
    all four seats of the deals (G, 74), whose columns are those of `split_deals`.
    """
    calls = np.concatenate(pool.map(_bid, side, array_chunks(SHARD, deals), generator(0)))
    cards, dealer, vulnerable = deals[:, :CARDS], deals[:, CARDS], deals[:, CARDS + 1]
    of = system_agreement.RecordedAuctions(hand_bits(cards), dealer, vulnerable, calls, calls >= 0)
    replayed = system_agreement.follow_system(side.system, of)
    return float(system_agreement.meaning_table(side.system, of, replayed)[-1]["true"])


def _bid(rng: Generator, side: Side, deals: Deals) -> Array:
    """Let one bidder (`side`) bid all four seats of each deal (G, 74); return the calls (G, L).

    The calls of a deal are in order, padded with -1 after the end of the auction. The columns of a
    deal are those of `split_deals`.
    """
    cards, dealer, vulnerable = deals[:, :CARDS], deals[:, CARDS], deals[:, CARDS + 1]
    return bidders.bid_auctions(side, side, cards, dealer, vulnerable, rng)


def learning_curve(history: History, x: str) -> dict[str, Figure]:
    """Draw the IMPs per board against the pretrained bidder over another metric.

    `x`: name of the metric on the horizontal axis. Returns the figure by name, or no figure if
    there was no evaluation.
    """
    points = [
        (m[x], m[IMPS_METRIC], m[f"{IMPS_METRIC}_se"]) for _, m in history if IMPS_METRIC in m
    ]
    if not points:
        return {}
    return {"imps": bar_charts.means_with_errors(points, x, f"IMPs per board against {PRETRAINED}")}


def _play_match(rng: Generator, sides: tuple[Side, Side], deals: Deals) -> Array:
    return bidders.imps_between(*sides, deals, rng)

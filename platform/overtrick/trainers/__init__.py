"""Who plays whom, who learns, when to measure. A page each; this is their index."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from overtrick.config import Job
from overtrick.core import Trainer
from overtrick.trainers import (
    bidder,
    bidding,
    cardplay,
    coevolve,
    dqn,
    dron,
    eom,
    evolve,
    exploit,
    meta,
    meta_job,
    nfsp,
    rllib,
    rllib_job,
    sampling,
    selfplay_bidding,
    solve,
    standing,
    tabular,
    tournament,
)
from overtrick.trainers.evaluate import Row
from overtrick.trainers.standing import Standing


@dataclass(frozen=True)
class Page:
    """A trainer as the rest of the house sees it."""

    job: type[Job]
    trainer: Callable[..., Trainer]  # (job, crew), and a share of what several learners do
    check: Callable[..., None]  # (job): raises Refused for what would only fail later
    judge: Callable[..., list[Row]]  # (job, weights, crew, rng) -> the table of a stored model
    score: Callable[[list[Row]], float]  # of a table, larger is better: sweeps go by it
    standing: Standing | None = None  # the same of an iteration's metrics; None: nobody learns


def closeness(rows: list[Row]) -> float:
    """Minus the exploitability of the first row."""
    return -float(rows[0]["exploitability"])


def payoff(rows: list[Row]) -> float:
    """Mean over strangers of the payoff after the last step."""
    return sum(float(row["steps"][-1]) for row in rows) / len(rows)


TRAINERS = {
    "bidder": Page(
        bidder.BidderJob,
        bidder.BidderTrainer,
        bidder.check,
        bidder.judge,
        bidder.score,
        standing.board_imps,
    ),
    "bidding": Page(
        bidding.BiddingJob,
        bidding.BiddingTrainer,
        bidding.check,
        bidding.judge,
        bidding.score,
        standing.foretold,
    ),
    "coevolve": Page(
        coevolve.CoevolveJob,
        coevolve.CoevolveTrainer,
        coevolve.check,
        coevolve.judge,
        closeness,
        standing.closeness,
    ),
    "dqn": Page(
        dqn.DqnJob, dqn.DqnTrainer, dqn.check, dqn.judge, cardplay.share_made, standing.made
    ),
    "dron": Page(dron.DronJob, dron.DronTrainer, dron.check, dron.judge, payoff, standing.payoff),
    "eom": Page(eom.EomJob, eom.EomTrainer, eom.check, eom.judge, payoff, standing.payoff),
    "evolve": Page(
        evolve.EvolveJob, evolve.EvolveTrainer, evolve.check, evolve.judge, payoff, standing.payoff
    ),
    "exploit": Page(
        exploit.ExploitJob,
        exploit.ExploitTrainer,
        exploit.check,
        exploit.judge,
        payoff,
        standing.payoff,
    ),
    "meta": Page(
        meta_job.MetaJob, meta.MetaTrainer, meta_job.check, meta.judge, payoff, standing.payoff
    ),
    "nfsp": Page(nfsp.NfspJob, nfsp.NfspTrainer, nfsp.check, nfsp.judge, payoff, standing.payoff),
    "rllib": Page(
        rllib_job.RllibJob,
        rllib.RllibTrainer,
        rllib_job.check,
        rllib.judge,
        payoff,
        standing.payoff,
    ),
    "sampling": Page(
        sampling.SamplingJob,
        sampling.SamplingTrainer,
        sampling.check,
        sampling.judge,
        cardplay.share_made,
    ),
    "selfplay_bidding": Page(
        selfplay_bidding.SelfplayJob,
        selfplay_bidding.SelfplayTrainer,
        selfplay_bidding.check,
        selfplay_bidding.judge,
        selfplay_bidding.score,
        standing.board_imps,
    ),
    "solve": Page(
        solve.SolveJob, solve.SolveTrainer, solve.check, solve.judge, closeness, standing.closeness
    ),
    "tabular": Page(
        tabular.TabularJob,
        tabular.TabularTrainer,
        tabular.check,
        tabular.judge,
        cardplay.share_made,
        standing.made,
    ),
    "tournament": Page(
        tournament.TournamentJob,
        tournament.TournamentTrainer,
        tournament.check,
        tournament.judge,
        tournament.best,
    ),
}
JOBS: dict[str, type[Job]] = {name: page.job for name, page in TRAINERS.items()}

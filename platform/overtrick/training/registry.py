"""Who plays whom, who learns, when to measure. A page each; this is their index."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from overtrick.config.job_file import Job
from overtrick.core import Trainer
from overtrick.evaluation import cardplay
from overtrick.evaluation.evaluate import Row
from overtrick.training import exploit, scores, tournament
from overtrick.training.adaptation import dron, eom, evolve, meta, meta_job
from overtrick.training.bidding import self_play, supervised, value_rl
from overtrick.training.cardplay import dqn, pimc, tabular
from overtrick.training.equilibrium import coevolve, nfsp, solve
from overtrick.training.rllib import rllib_job, rllib_trainer
from overtrick.training.scores import Standing


@dataclass(frozen=True)
class TrainerSpec:
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
    "bidder": TrainerSpec(
        value_rl.BidderJob,
        value_rl.BidderTrainer,
        value_rl.check,
        value_rl.judge,
        value_rl.score,
        scores.board_imps,
    ),
    "bidding": TrainerSpec(
        supervised.BiddingJob,
        supervised.BiddingTrainer,
        supervised.check,
        supervised.judge,
        supervised.score,
        scores.foretold,
    ),
    "coevolve": TrainerSpec(
        coevolve.CoevolveJob,
        coevolve.CoevolveTrainer,
        coevolve.check,
        coevolve.judge,
        closeness,
        scores.closeness,
    ),
    "dqn": TrainerSpec(
        dqn.DqnJob, dqn.DqnTrainer, dqn.check, dqn.judge, cardplay.share_made, scores.made
    ),
    "dron": TrainerSpec(
        dron.DronJob, dron.DronTrainer, dron.check, dron.judge, payoff, scores.payoff
    ),
    "eom": TrainerSpec(eom.EomJob, eom.EomTrainer, eom.check, eom.judge, payoff, scores.payoff),
    "evolve": TrainerSpec(
        evolve.EvolveJob, evolve.EvolveTrainer, evolve.check, evolve.judge, payoff, scores.payoff
    ),
    "exploit": TrainerSpec(
        exploit.ExploitJob,
        exploit.ExploitTrainer,
        exploit.check,
        exploit.judge,
        payoff,
        scores.payoff,
    ),
    "meta": TrainerSpec(
        meta_job.MetaJob, meta.MetaTrainer, meta_job.check, meta.judge, payoff, scores.payoff
    ),
    "nfsp": TrainerSpec(
        nfsp.NfspJob, nfsp.NfspTrainer, nfsp.check, nfsp.judge, payoff, scores.payoff
    ),
    "rllib": TrainerSpec(
        rllib_job.RllibJob,
        rllib_trainer.RllibTrainer,
        rllib_job.check,
        rllib_trainer.judge,
        payoff,
        scores.payoff,
    ),
    "sampling": TrainerSpec(
        pimc.SamplingJob,
        pimc.SamplingTrainer,
        pimc.check,
        pimc.judge,
        cardplay.share_made,
    ),
    "selfplay_bidding": TrainerSpec(
        self_play.SelfplayJob,
        self_play.SelfplayTrainer,
        self_play.check,
        self_play.judge,
        self_play.score,
        scores.board_imps,
    ),
    "solve": TrainerSpec(
        solve.SolveJob, solve.SolveTrainer, solve.check, solve.judge, closeness, scores.closeness
    ),
    "tabular": TrainerSpec(
        tabular.TabularJob,
        tabular.TabularTrainer,
        tabular.check,
        tabular.judge,
        cardplay.share_made,
        scores.made,
    ),
    "tournament": TrainerSpec(
        tournament.TournamentJob,
        tournament.TournamentTrainer,
        tournament.check,
        tournament.judge,
        tournament.best,
    ),
}
JOBS: dict[str, type[Job]] = {name: page.job for name, page in TRAINERS.items()}

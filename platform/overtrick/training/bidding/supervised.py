"""The networks that bid, taught by recorded auctions: which call is made, and what it brings
(Zhang et al. 2022, sections 4.2 and 4.3)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from matplotlib.figure import Figure
from numpy.random import Generator
from pydantic import Field

from overtrick.config.job_file import Count, FolderPath, Positive, Section
from overtrick.core import Array, UserError
from overtrick.datasets.bidding_examples import SPLITS, BiddingExamples
from overtrick.datasets.bidding_examples_build import RECORDED, check_system_rules
from overtrick.distributed.data_parallel import SINGLE_LEARNER, LearnerShare
from overtrick.distributed.workers import RngStream, WorkerPool, generator
from overtrick.evaluation import bidding_accuracy
from overtrick.evaluation.bidders import BiddingSystemJob
from overtrick.games.bridge.auction import network_bidder
from overtrick.games.bridge.auction_rules import legal_in_situations
from overtrick.games.bridge.system import loader
from overtrick.learners.initialisation import initial_weights
from overtrick.learners.state_keys import prefixed, unprefixed
from overtrick.learners.supervised import classifier
from overtrick.learners.supervised.classifier import Classifier
from overtrick.reports import bar_charts
from overtrick.training import scores
from overtrick.training.base_trainer import BaseTrainer, History, Metrics, Rows, register

LearningTarget = Literal["calls", "imps"]
LOSS_INTERVAL = 100  # gradient steps between looks at the loss
WARMUP_STEPS = 500  # gradient steps in which the rate rises
METRICS = {
    **{name: f"{name}_precision" for name in ("total", "real", "unreal")},
    "error": "error_imps",
}
ROWS_AT_ONCE = 4096  # examples of one answer


class NetworkTraining(Section):
    """How a network learns."""

    activation: Literal["leaky_relu", "relu", "tanh", "sigmoid"] = Field(
        default="leaky_relu", description="of the hidden units"
    )
    optimizer: Literal["adam", "sgd", "rmsprop"] = Field(
        default="adam", description="how a gradient becomes a step"
    )
    learning_rate: Positive = Field(default=0.001, description="learning rate, at its highest")
    schedule: Literal["constant", "linear"] = Field(
        default="constant", description="linear: rises over 500 steps, then falls to 0"
    )
    batch_size: Count = Field(default=512, description="examples of a gradient step")
    bfloat16: bool = Field(default=False, description="products in bfloat16")
    dropout: float = Field(
        default=0.0, ge=0, lt=1, description="share of hidden units left out as it learns"
    )

    def plan(self, device: str) -> classifier.ClassifierConfig:
        return classifier.ClassifierConfig(
            self.activation, self.optimizer, self.learning_rate, self.bfloat16, device, self.dropout
        )

    def pace(self, done: int, steps: int) -> float:
        """The rate of a step after so many, of so many in all."""
        if self.schedule == "constant":
            return self.learning_rate
        return self.learning_rate * min(1.0, (done + 1) / WARMUP_STEPS) * (1 - done / steps)


class BiddingNetworkConfig(NetworkTraining):
    """A network and how it learns."""

    hidden: tuple[Count, ...] = Field(default=(2048,) * 4, description="units of each layer")
    raw_auction: bool = Field(
        default=False, description="it also sees the last bid, by whom, and whether it is doubled"
    )

    def weights(self, outputs: int, rng: Generator) -> dict[str, Array]:
        """Fresh ones."""
        return initial_weights(
            (network_bidder.input_width(self.raw_auction), *self.hidden, outputs), rng, 0.1
        )


class ExampleEvaluation(Section):
    """How a network is judged, on deals that it has never met."""

    every: Count = Field(default=1, description="iterations between measurements")
    examples: Count = Field(default=100_000, description="of a measurement; the last uses all")


class BiddingJob(BiddingSystemJob):
    """Everything that teaching a network needs."""

    used_resources: ClassVar[frozenset[str]] = frozenset({"gpus", "learners", "data_readers"})

    trainer: Literal["bidding"]
    examples: FolderPath = Field(description="a folder that `overtrick generate examples` made")
    target: LearningTarget = Field(
        default="calls", description="which call is made, or what it brings"
    )
    network: BiddingNetworkConfig = BiddingNetworkConfig()
    evaluate: ExampleEvaluation = ExampleEvaluation()


def score(rows: list[dict[str, Any]]) -> float:
    """Of a table: total precision; of what is foretold in IMPs, minus the mean error."""
    return float(rows[0]["total"]) if "total" in rows[0] else -float(rows[0]["error"])


@register("bidding", BiddingJob, score, scores.bidding_accuracy)
class BiddingTrainer(BaseTrainer[BiddingJob]):
    """Train a network on bidding examples, a pass an iteration; alone, or as one of several."""

    def __init__(
        self, job: BiddingJob, pool: WorkerPool, share: LearnerShare = SINGLE_LEARNER
    ) -> None:
        super().__init__(job, pool)
        self.share = share
        self.examples = BiddingExamples(job.examples, SPLITS[0], job.resources.data_readers)
        self.kept = BiddingExamples(job.examples, SPLITS[1])
        device = "cuda" if job.resources.gpus else "cpu"
        torch.set_num_threads(max(1, int(job.resources.cpus)))
        weights = job.network.weights(
            network_bidder.OUTPUT_WIDTHS[job.target], generator(job.seed, RngStream.INITIAL)
        )
        self.learner = Classifier(weights, job.network.plan(device))
        share.add_gradients(self.learner.optimizer.params.values())

    def train_iteration(self, rng: Generator, progress: float) -> Metrics:
        """Learn from every example once."""
        network, each = self.job.network, -(-len(self.examples) // self.job.network.batch_size)
        done = (self.iteration - 1) * each
        self.learner.seed(rng)
        if self.share.rank:  # all have drawn alike from rng, which orders the examples
            own = generator(self.job.seed, RngStream.TRAIN, self.iteration, self.share.rank)
            self.learner.seed(own)
        losses: list[torch.Tensor] = []
        total = 0.0
        for rows in self.examples.batches(network.batch_size, rng):
            self.learner.optimizer.set_learning_rate(
                network.pace(done, each * self.job.stop.iterations)
            )
            told = inputs_and_labels(self.share.rows(rows), self.job.target, network.raw_auction)
            losses.append(self.learner.learn(*told, total_rows=len(rows["call"])))
            done += 1
            if len(losses) == LOSS_INTERVAL or done == each * self.iteration:
                found = float(self.share.total(torch.stack(losses).sum()))
                total += classifier.check_loss(found, f"in iteration {self.iteration}")
                losses.clear()
        self.learner.check_weights(f"in iteration {self.iteration}")
        return {"loss_nats": total / each}

    def evaluation_interval(self) -> int | None:
        return self.job.evaluate.every if self.share.rank == 0 else None

    def evaluate(self) -> Metrics:
        return evaluate_network(self.job, self.learner, self.kept, self.job.evaluate.examples)[0]

    def figures(self, history: History, rows: Rows) -> dict[str, Figure]:
        shown = bidding_accuracy.FIGURE_COLUMNS[self.job.target]
        return {"precision": bar_charts.grouped(rows, "part", shown)}

    def model(self) -> dict[str, Array]:
        """Return the network under the name of its target."""
        return prefixed(self.job.target, self.learner.weights())

    @staticmethod
    def validate(job: BiddingJob) -> None:
        """Raise UserError for another game, or examples that are missing or of other systems."""
        if job.game.name != "auction":
            raise UserError(f"the bidding trainer is for the auction, not for {job.game.name}")
        for split in SPLITS:
            known = BiddingExamples(job.examples, split)
        check_system_rules(job.examples, known.parameters)
        by = [known.parameters[name] for name in ("system_ns", "system_ew")]
        if not known.parameters["solved"] and RECORDED not in by and job.system not in by:
            raise UserError(
                f"the calls of the examples in {job.examples} are those of {' and '.join(by)}, "
                "not of "
                f"{job.system}: set system"
            )
        _check_version(job, known)
        if job.target not in (*known.columns, "calls"):
            raise UserError(
                f"the examples in {job.examples} do not say what calls brought: generate them "
                "again "
                "with outcomes=true from boards with double-dummy tricks"
            )

    @staticmethod
    def evaluate_model(
        job: BiddingJob, weights: Mapping[str, Array], pool: WorkerPool, rng: Generator
    ) -> Rows:
        """Compute the accuracy of a stored network on the test deals."""
        kept = BiddingExamples(job.examples, "test")
        _check_version(job, kept)
        learner = Classifier(unprefixed(job.target, weights), job.network.plan("cpu"))
        return evaluate_network(job, learner, kept, len(kept))[1]


def _check_version(job: BiddingJob, examples: BiddingExamples) -> None:
    """Raise UserError for examples made with another version of the job's bidding system."""
    if job.system_version[loader.load(job.system).name] not in examples.parameters["rules"]:
        raise UserError(
            f"the examples in {job.examples} were made by other rules than those of "
            f"{job.system} in this job: set system, or begin a new run"
        )


def evaluate_network(
    job: BiddingJob, learner: Classifier, kept: BiddingExamples, most: int
) -> tuple[dict[str, float], list[dict[str, Any]]]:
    """The metrics and the table of a network on examples kept for testing, at most so many."""
    parts: list[dict[str, Array]] = []
    for rows in _pieces(kept.in_order(most)):
        features, possible, _ = inputs_and_labels(rows, job.target, job.network.raw_auction)
        told = learner.log_probs(features, possible)
        small = ("call", "length", "type", *(("imps",) if job.target == "imps" else ()))
        answer = bidding_accuracy.PREDICTORS[job.target](told)
        parts.append({**answer, **{name: rows[name] for name in small}})
    whole = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    table = bidding_accuracy.accuracy_table(whole, bidding_accuracy.MEASURES[job.target])
    said = {k: v for k, v in table[0].items() if isinstance(v, float)}
    return {METRICS.get(name, name): value for name, value in said.items()}, table


def inputs_and_labels(
    rows: Mapping[str, Array], learn: LearningTarget, with_auction: bool
) -> tuple[Array, Array, Array]:
    """What a network learns from: features (R, F), what is possible (R, A), what it was (R,)."""
    situation = rows["situation"]
    if learn == "calls":
        features = network_bidder.unpack_inputs(rows["before"], situation if with_auction else None)
        return features, legal_in_situations(situation), rows["call"]
    after = network_bidder.situations_after(situation, rows["call"]) if with_auction else None
    label = rows["imps"] + network_bidder.MAX_IMPS
    every_value = np.ones((len(label), network_bidder.IMP_CLASSES), bool)
    return network_bidder.unpack_inputs(rows["after"], after), every_value, label


def _pieces(whole: Iterator[dict[str, Array]]) -> Iterator[dict[str, Array]]:
    for rows in whole:
        for first in range(0, len(rows["call"]), ROWS_AT_ONCE):
            yield {name: column[first : first + ROWS_AT_ONCE] for name, column in rows.items()}

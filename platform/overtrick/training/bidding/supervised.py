"""Trainer `bidding`: supervised training of a bidding network on examples.

A network predicts calls, or the IMPs of a call against par. Source: Zhang et al. 2022, sections 4.2
and 4.3.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.random import Generator
from pydantic import Field, model_validator

from overtrick.config.sections import Count, DataPath, Positive, Section
from overtrick.core import Array, UserError, concat_columns, select_rows
from overtrick.core.checkpoints import prefixed
from overtrick.core.lazy_modules import torch
from overtrick.datasets.bidding_examples import SPLITS, BiddingExamples
from overtrick.datasets.bidding_examples_build import RECORDED, check_system_rules
from overtrick.distributed.data_parallel import SINGLE_LEARNER, LearnerShare
from overtrick.distributed.workers import RngStream, WorkerPool, generator
from overtrick.evaluation import bidding_accuracy
from overtrick.games.bridge.auction import (
    features,
    network_bidder,
    network_inputs,
    stored_networks,
)
from overtrick.games.bridge.auction.features import FeatureGroup
from overtrick.games.bridge.auction.network_bidder import BiddingNetwork
from overtrick.games.bridge.auction.network_inputs import Inputs
from overtrick.games.bridge.auction_rules import legal_after_last_bids
from overtrick.games.bridge.system import loader
from overtrick.learners.divergence import check_loss
from overtrick.learners.initialisation import initial_weights
from overtrick.learners.supervised import classifier
from overtrick.learners.supervised.classifier import Classifier
from overtrick.reports import bar_charts
from overtrick.training import scores
from overtrick.training.base_trainer import BaseTrainer, History, Metrics, Rows, register
from overtrick.training.bidding.bidding_system_job import BiddingSystemJob

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch import Tensor

LearningTarget = Literal["calls", "imps"]
LOSS_INTERVAL = 100  # gradient steps between checks of the loss
WARMUP_STEPS = 500  # first gradient steps, in which the learning rate rises
METRICS = {
    **{name: f"{name}_precision" for name in ("total", "real", "unreal")},
    "error": "error_imps",
}
ROWS_AT_ONCE = 4096  # examples in one forward pass


class NetworkTraining(Section):
    """Settings of the supervised training of a bidding network."""

    activation: Literal["leaky_relu", "relu", "tanh", "sigmoid"] = "leaky_relu"
    """Activation function of the hidden units."""

    optimizer: Literal["adam", "sgd", "rmsprop"] = "adam"
    """Gradient-based optimiser."""

    learning_rate: Positive = 0.001
    """Highest learning rate of the schedule."""

    schedule: Literal["constant", "linear"] = "constant"
    """Learning rate schedule. constant: no change. linear: rise over 500 steps, then fall to 0."""

    batch_size: Count = 512
    """Examples per gradient step."""

    bfloat16: bool = False
    """Compute matrix products in bfloat16: faster on GPUs and on CPUs with AMX or AVX-512, but
    slower on other CPUs.
    """

    dropout: float = Field(default=0.0, ge=0, lt=1)
    """Dropout probability of hidden units."""

    def classifier_config(self) -> classifier.ClassifierConfig:
        """Return these settings as a configuration of the learner."""
        return classifier.ClassifierConfig(
            self.activation, self.optimizer, self.learning_rate, self.bfloat16, self.dropout
        )

    def network(self, weights: dict[str, Array]) -> BiddingNetwork:
        """Return a network for bidding with the given weights and these settings."""
        return BiddingNetwork(weights, self.activation, self.bfloat16)

    def learning_rate_at(self, done: int, steps: int) -> float:
        """Return the learning rate after `done` of the `steps` gradient steps of a run.

        It is 0 after more than `steps`, as in a run that was continued with fewer steps.
        """
        if self.schedule == "constant":
            return self.learning_rate
        left = max(0.0, 1 - done / steps)
        return self.learning_rate * min(1.0, (done + 1) / WARMUP_STEPS) * left


class BiddingNetworkConfig(NetworkTraining):
    """Settings of a bidding network's architecture and supervised training."""

    hidden: tuple[Count, ...] = (2048,) * 4
    """Units of each hidden layer."""

    inputs: Inputs = "features"
    """Inputs of the network. features: the 1,284 general features. last_bid: the features and the
    last bid, its seat, and whether it is doubled. auction: hand, vulnerability, dealer and seat,
    and all calls. both: the features and all calls.
    """

    ignored_features: tuple[FeatureGroup, ...] = ()
    """Groups of the players' features that the network does not see, to measure their worth. Later
    reinforcement learning sees them.
    """

    @model_validator(mode="after")
    def _inputs_have_features(self) -> BiddingNetworkConfig:
        if self.ignored_features and self.inputs == "auction":
            raise ValueError(
                "ignored_features has no use: inputs=auction has no features of players"
            )
        return self

    def weights(self, outputs: int, rng: Generator) -> dict[str, Array]:
        """Draw the initial weights of a network with `outputs` outputs.

        Ignored features have weights of 0.
        """
        sizes = network_inputs.WIDTHS[self.inputs], *self.hidden, outputs
        weights = initial_weights(sizes, rng, 0.1)
        weights["w0"][features.group_columns(self.ignored_features)] = 0
        return weights


class ExampleEvaluation(Section):
    """Settings of a network's evaluation on examples of the test split."""

    every: Count = 1
    """Iterations between evaluations."""

    examples: Count = 100_000
    """Number of examples of an evaluation during training; the last evaluation uses all."""


class BiddingJob(BiddingSystemJob):
    """Job file of the trainer `bidding`: supervised training of a bidding network."""

    used_resources: ClassVar[frozenset[str]] = frozenset({"gpus", "learners", "data_readers"})

    trainer: Literal["bidding"]
    examples: DataPath
    """Folder of examples made by `overtrick generate examples`."""

    examples_share: float = Field(default=1.0, gt=0, le=1)
    """Share of the training examples to use. The first ones of each file are used; their order in a
    file is random.
    """

    target: LearningTarget = "calls"
    """Prediction to train. calls: the call of an example. imps: the IMPs of a call against par."""

    network: BiddingNetworkConfig = BiddingNetworkConfig()
    evaluate: ExampleEvaluation = ExampleEvaluation()


def score(rows: list[dict[str, Any]]) -> float:
    """Return the score of a trained network from its results table.

    If the network predicts calls, the score is its accuracy. If it predicts IMPs, the score is
    minus its mean absolute error. `rows`: the results table; its first row is about all examples.
    """
    return float(rows[0]["total"]) if "total" in rows[0] else -float(rows[0]["error"])


@register("bidding", BiddingJob, score, scores.bidding_accuracy)
class BiddingTrainer(BaseTrainer[BiddingJob]):
    """Trainer of a network on bidding examples; an iteration passes once over those of its share.

    `share`: selects the rows of each batch on which this learner trains, if several learners train
    in parallel.
    """

    def __init__(
        self, job: BiddingJob, pool: WorkerPool, share: LearnerShare = SINGLE_LEARNER
    ) -> None:
        super().__init__(job, pool)
        self.share = share
        self.examples = BiddingExamples(
            job.examples, SPLITS[0], job.resources.data_readers, job.examples_share
        )
        self.test_examples = BiddingExamples(job.examples, SPLITS[1])
        torch.set_num_threads(max(1, int(job.resources.cpus)))
        weights = job.network.weights(
            network_bidder.OUTPUT_WIDTHS[job.target], generator(job.seed, RngStream.INITIAL)
        )
        self.learner = Classifier(weights, job.network.classifier_config())
        share.add_gradients(self.learner.optimizer.params.values())
        self._keep_ignored_weights()

    def _keep_ignored_weights(self) -> None:
        """Set the gradients of the weights of ignored features to 0, so that they stay 0."""
        columns = torch.as_tensor(features.group_columns(self.job.network.ignored_features))
        if len(columns):
            hook: Any = self.learner.optimizer.params["w0"].register_hook
            hook(lambda gradient: gradient.index_fill(0, columns, 0))

    def train_iteration(self, rng: Generator, progress: float) -> Metrics:
        """Train the network on every example once, in batches."""
        network, each = self.job.network, -(-len(self.examples) // self.job.network.batch_size)
        done = (self.iteration - 1) * each
        self.learner.seed(rng)
        if self.share.rank:  # the learners share rng, which orders the examples, but not the noise
            key = RngStream.TRAIN, self.iteration, self.share.rank
            self.learner.seed(generator(self.job.seed, *key))
        losses: list[torch.Tensor] = []
        total = 0.0
        for rows in self.examples.batches(network.batch_size, rng):
            self.learner.optimizer.set_learning_rate(
                network.learning_rate_at(done, each * self.job.stop.iterations)
            )
            own = inputs_and_labels(self.share.rows(rows), self.job.target, network.inputs)
            losses.append(self.learner.learn(*own, total_rows=len(rows["call"])))
            done += 1
            if len(losses) == LOSS_INTERVAL or done == each * self.iteration:
                found = float(self.share.total(torch.stack(losses).sum()))
                total += check_loss(found, f"in iteration {self.iteration}")
                losses.clear()
        self.learner.check_weights(f"in iteration {self.iteration}")
        return {"loss_nats": total / each}

    def evaluation_interval(self) -> int | None:
        return self.job.evaluate.every if self.share.rank == 0 else None

    def evaluate(self) -> Metrics:
        return evaluate_network(
            self.job, self.learner, self.test_examples, self.job.evaluate.examples
        )[0]

    def figures(self, history: History, rows: Rows) -> dict[str, Figure]:
        shown = bidding_accuracy.FIGURE_COLUMNS[self.job.target]
        return {"precision": bar_charts.grouped_shares(rows, "part", shown)}

    def model(self) -> dict[str, Array]:
        """Return the network's weights by name.

        The prefix of a weight's name is the job's setting `target`: `calls` or `imps`.
        """
        return prefixed(self.job.target, self.learner.weights())

    @staticmethod
    def validate(job: BiddingJob) -> None:
        """Raise UserError for another game than the auction, or missing or unsuitable examples."""
        if job.game.name != "auction":
            raise UserError(f"the bidding trainer is for the auction, not for {job.game.name}")
        for split in SPLITS:
            examples = BiddingExamples(job.examples, split)
        check_system_rules(job.examples, examples.parameters)
        systems = [examples.parameters[name] for name in ("system_ns", "system_ew")]
        if not examples.parameters["solved"] and not {RECORDED, job.system}.intersection(systems):
            raise UserError(
                f"the calls of the examples in {job.examples} are those of "
                f"{' and '.join(systems)}, not of {job.system}: set system"
            )
        _check_version(job, examples)
        if job.target not in (*examples.columns, "calls"):
            raise UserError(
                f"the examples in {job.examples} have no IMPs: generate them again "
                "with outcomes=true"
            )

    @staticmethod
    def evaluate_model(
        job: BiddingJob, weights: Mapping[str, Array], pool: WorkerPool, rng: Generator
    ) -> Rows:
        """Compute the accuracy of a stored network on all examples of the test split.

        Returns a row for all examples together, and one for each range of auction length and type
        of call.
        """
        examples = BiddingExamples(job.examples, "test")
        _check_version(job, examples)
        own = stored_networks.networks_of_model(weights, {job.target: job.target})
        learner = Classifier(own[job.target], job.network.classifier_config())
        return evaluate_network(job, learner, examples, len(examples))[1]


def _check_version(job: BiddingJob, examples: BiddingExamples) -> None:
    """Raise UserError if the job's bidding system has changed since the examples were made."""
    if job.system_version[loader.load(job.system).name] not in examples.parameters["rules"]:
        raise UserError(
            f"the examples in {job.examples} were made by other rules than those of "
            f"{job.system} in this job: set system, or begin a new run"
        )


def evaluate_network(
    job: BiddingJob, learner: Classifier, examples: BiddingExamples, limit: int
) -> tuple[dict[str, float], list[dict[str, Any]]]:
    """Evaluate a network on at most `limit` examples; return metrics and a table of results.

    The first row of the table is about all examples; each further row is about a range of auction
    length or a type of call. The metrics repeat the first row.
    """
    parts: list[dict[str, Array]] = []
    for rows in _split(examples.in_order(limit)):
        inputs, possible, _ = inputs_and_labels(rows, job.target, job.network.inputs)
        log_probs = learner.log_probs(inputs, possible)
        columns = ("call", "length", "type", *(("imps",) if job.target == "imps" else ()))
        predictions = bidding_accuracy.PREDICTORS[job.target](log_probs)
        parts.append({**predictions, **{name: rows[name] for name in columns}})
    table = bidding_accuracy.accuracy_table(
        concat_columns(parts), bidding_accuracy.MEASURES[job.target]
    )
    metrics = {METRICS.get(k, k): v for k, v in table[0].items() if isinstance(v, float)}
    return metrics, table


def inputs_and_labels(
    rows: Mapping[str, Array], target: LearningTarget, inputs: Inputs
) -> tuple[Array | Tensor, Array, Array]:
    """Convert R examples to network inputs (R, F), masks of classes (R, A) and labels (R,).

    The inputs are a tensor on the GPU if this thread uses one.

    - `target` "calls": the inputs describe the auction before the example's call. The A = 38
      classes are the calls, and the mask marks the legal ones. The label is the example's call.
    - `target` "imps": the inputs describe the auction after the example's call. The A = 49 classes
      are the results from -24 to 24 IMPs against par, and the mask is True everywhere. The label is
      the class of the example's result.

    `rows`: the columns of the examples. `inputs`: the kind of the network's inputs.
    """
    callers = rows["callers"]
    if target == "calls":
        legal = legal_after_last_bids(network_inputs.last_bids(callers))
        return network_inputs.learner_inputs(rows["before"], callers, inputs), legal, rows["call"]
    after = network_inputs.callers_after(callers, rows["call"])
    label = rows["imps"] + network_bidder.MAX_IMPS
    every_value = np.ones((len(label), network_bidder.IMP_CLASSES), bool)
    return network_inputs.learner_inputs(rows["after"], after, inputs), every_value, label


def _split(stream: Iterator[dict[str, Array]]) -> Iterator[dict[str, Array]]:
    for rows in stream:
        for first in range(0, len(rows["call"]), ROWS_AT_ONCE):
            yield select_rows(rows, slice(first, first + ROWS_AT_ONCE))

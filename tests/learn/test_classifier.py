"""Dropout in networks that learn from examples."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from overtrick.learners.initialisation import initial_weights
from overtrick.learners.optimisers import Optimizer
from overtrick.learners.supervised.classifier import OPTIMIZERS, Classifier, ClassifierConfig

WEIGHTS = initial_weights((6, 32, 4), np.random.default_rng(0))


def learner(dropout: float, seed: int) -> Classifier:
    made = Classifier(
        WEIGHTS, ClassifierConfig("relu", "adam", 0.01, bfloat16=False, dropout=dropout)
    )
    made.seed(np.random.default_rng(seed))
    return made


@pytest.fixture
def examples(rng):
    return rng.random((64, 6), np.float32), np.ones((64, 4), bool), rng.integers(4, size=64)


def test_dropout_leaves_the_mean_as_it_is():
    hidden = learner(0.25, 1)._drop(torch.ones(500, 400))
    assert set(hidden.unique().tolist()) == {0, np.float32(1 / 0.75)}
    assert float(hidden.mean()) == pytest.approx(1, abs=5 * np.sqrt(0.25 / 0.75 / hidden.numel()))


def test_predictions_are_made_without_dropout(examples):
    predictions = [learner(share, 1).log_probs(*examples[:2]) for share in (0, 0.5)]
    assert np.array_equal(*predictions)


@pytest.mark.parametrize(
    ("name", "moment"), [("sgd", "momentum_buffer"), ("rmsprop", "square_avg")]
)
def test_restored_moments_are_on_the_device_of_the_weights_but_a_count_of_steps_is_not(
    name, moment
):
    """Torch's device `meta`, which holds no numbers, stands for a GPU."""
    make, weights = OPTIMIZERS[name](0.1), {"w0": np.ones((2, 3), np.float32)}
    trained = Optimizer(weights, make)
    trained.minimise(trained.params["w0"].sum())
    with torch.device("meta"):
        restored = Optimizer(weights, make)
        restored.load(trained.state())
    (state,) = restored._optimizer.state.values()
    assert state[moment].device.type == "meta"
    if name == "rmsprop":
        assert state["step"].device.type == "cpu"


def test_moments_of_another_kind_of_optimiser_are_refused():
    weights = {"w": np.ones(2, np.float32)}
    adam, other = (Optimizer(weights, OPTIMIZERS[name](0.1)) for name in ("adam", "rmsprop"))
    fresh = adam.state()
    adam.minimise(adam.params["w"].sum())
    other.load(fresh)
    with pytest.raises(ValueError, match="exp_avg, exp_avg_sq, step are not moments"):
        other.load(adam.state())


def test_dropped_units_depend_only_on_the_seed(examples):
    def learnt(share, seed):
        made = learner(share, seed)
        made.learn(*examples)
        return made.weights()["w0"]

    assert np.array_equal(learnt(0.5, 1), learnt(0.5, 1))
    assert not np.array_equal(learnt(0.5, 1), learnt(0.5, 2))
    assert np.array_equal(learnt(0, 1), learnt(0, 2))


def test_a_part_of_a_batch_has_its_share_of_the_loss(examples):
    whole, part = (learner(0, 1) for _ in range(2))
    loss = float(whole.learn(*examples))
    assert float(part.learn(*examples, total_rows=256)) == pytest.approx(loss / 4)

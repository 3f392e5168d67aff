"""Fixtures of all tests. The environment is prepared first, as the command line does."""

from __future__ import annotations

from overtrick import startup

startup.prepare()  # before numpy and torch are imported
startup.GENERATED.clear()  # no test unsets the Ray token that the tests of a process share

import functools  # noqa: E402
import os  # noqa: E402
from pathlib import Path  # noqa: E402

import numpy as np  # noqa: E402
import pytest  # noqa: E402
import torch  # noqa: E402
from hypothesis import settings  # noqa: E402
from scipy.stats import chisquare  # noqa: E402

import overtrick  # noqa: E402
from overtrick.datasets.card_abstraction_build import AbstractionConfig  # noqa: E402
from overtrick.datasets.chunked_build import generate  # noqa: E402
from overtrick.distributed.workers import LocalPool  # noqa: E402
from overtrick.solvers.extensive.tree import build  # noqa: E402

# cache slowly computed tables between runs, but not in the user's home
os.environ.setdefault("OVERTRICK_CACHE", str(Path(__file__).parents[1] / "build" / "cache"))
torch.set_num_threads(1)
# the same examples in every run, and no files
settings.register_profile("tests", derandomize=True, deadline=None, database=None, max_examples=60)
settings.load_profile("tests")


@pytest.fixture
def rng():
    """Return a generator with a fixed seed, new for each test."""
    return np.random.default_rng(20240229)


@pytest.fixture(scope="session")
def sample_deals():
    """Return a function (game, games, rng) that samples deals; deals of the auction get random
    double-dummy tricks, because solving one takes a tenth of a second."""

    def of(game, games, rng):
        deals = game.deal(games, rng)
        if game.name == "auction":
            deals[:, -20:] = rng.integers(14, size=(games, 20))
        return deals

    return of


@pytest.fixture(scope="session")
def abstraction(tmp_path_factory):
    """Return the file of a small card abstraction: hold'em with five ranks, six buckets per
    round."""
    file = tmp_path_factory.mktemp("abstraction") / "small.parquet"
    counts = ["preflop=300", "flop=20", "turn=10", "river=5", "deals=20000"]
    generate(AbstractionConfig.parse(["ranks=5", *counts]), file, LocalPool())
    return file


@pytest.fixture(scope="session")
def game_and_tree():
    """Return a function (name, **options) that returns a game and its tree, built once for all
    tests."""

    @functools.cache
    def of(name, **options):
        game = overtrick.make(name, **options)
        return game, build(game)

    return of


@pytest.fixture(scope="session")
def random_strategy():
    """Return a function (tree, rng, least=0) that returns a random strategy; the larger `least`,
    the closer to uniform."""

    def of(tree, rng, least=0):
        weight = (least + rng.exponential(size=tree.legal.shape)) * tree.legal
        return weight / weight.sum(axis=1, keepdims=True)

    return of


@pytest.fixture(scope="session")
def some_strategies():
    """Return a function (tree, rng) that yields the uniform strategy and random ones with zeros."""

    def of(tree, rng, count=10):
        yield tree.uniform()
        for _ in range(count):
            weight = rng.exponential(size=tree.legal.shape) * tree.legal
            weight *= rng.random(weight.shape) < 0.8
            empty = weight.sum(axis=1) == 0
            weight[empty] = tree.legal[empty]
            yield weight / weight.sum(axis=1, keepdims=True)

    return of


@pytest.fixture(scope="session")
def chi_square_p():
    """Return a function (counts, probabilities), both (n,), that returns the p-value of Pearson's
    chi-square test; 0 if an event of probability 0 occurred."""

    def of(counts, probabilities):
        counts, probabilities = np.asarray(counts), np.asarray(probabilities)
        possible = probabilities > 0
        if counts[~possible].any():
            return 0.0
        if possible.sum() == 1:
            return 1.0
        wanted = probabilities[possible] / probabilities[possible].sum() * counts.sum()
        return float(chisquare(counts[possible], wanted).pvalue)

    return of

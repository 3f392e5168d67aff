"""Shares of data-parallel learners, without Ray: rows of a batch, and reports of the first."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import ray.train

from overtrick.core import RunError
from overtrick.distributed import data_parallel
from overtrick.distributed.data_parallel import LearnerShare


@pytest.mark.parametrize("learners", [1, 2, 3, 8])
def test_every_row_of_a_batch_belongs_to_one_learner(learners):
    batch = {"x": np.arange(5), "y": np.arange(10).reshape(5, 2)}
    shares = [LearnerShare(rank, learners).rows(batch) for rank in range(learners)]
    assert sorted(np.concatenate([share["x"] for share in shares])) == [0, 1, 2, 3, 4]
    assert max(len(share["x"]) for share in shares) == -(-5 // learners)
    for share in shares:
        assert np.array_equal(share["y"][:, 0], 2 * share["x"])


class Reports(list):
    """Queue of reports, as a list."""

    put = list.append


class Trainer:
    """Trainer whose third iteration fails."""

    iteration = 0

    def load(self, state):
        self.iteration = state["iteration"]

    def step(self):
        self.iteration += 1
        if self.iteration == 3:
            raise RunError("the run diverged")
        return {"loss": 1 / self.iteration}

    def state(self):
        return {"iteration": self.iteration}


@pytest.mark.parametrize("rank", [0, 1])
def test_only_the_first_learner_reports(monkeypatch, rank):
    context = SimpleNamespace(get_world_rank=lambda: rank, get_world_size=lambda: 2)
    monkeypatch.setattr(ray.train, "get_context", lambda: context)
    shares, reports = [], Reports()

    def make(share):
        shares.append(share)
        return Trainer()

    data_parallel._learn(make, {"iteration": 1}, 4, reports)
    assert shares == [LearnerShare(rank, 2)]
    if rank:
        assert reports == []
        return
    (metrics, state), error = reports
    assert (metrics, state) == ({"loss": 0.5}, {"iteration": 2})
    assert str(error) == "the run diverged"

"""Training opponents of the meta-model, by kind of population."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from overtrick.config import job_file
from overtrick.distributed.workers import LocalPool
from overtrick.learners.initialisation import initial_weights
from overtrick.policies.forward_pass import LOG_STD
from overtrick.training.adaptation.meta import MetaTrainer
from overtrick.training.adaptation.opponent_population import POPULATIONS, STORED_KINDS, Opponents
from overtrick.training.registry import JOBS

SIZES = (2, 4, 3)
TRAINED = [kind for kind in POPULATIONS if kind not in STORED_KINDS]
"""Kinds of populations that change in training; test_stored_populations has the others."""


def opposition(rng, founder=None, **plan):
    founder = initial_weights(SIZES, rng) if founder is None else founder
    section = Opponents(**plan)
    choice = job_file.GameChoice(name="brps")
    return POPULATIONS[section.kind](choice, SIZES, section, founder, LocalPool(), rng)


def same(one, other):
    return all(np.array_equal(one[name], other[name]) for name in other)


def member(members, place):
    return {name: value[place] for name, value in members.items()}


def random_networks(rng, count):
    return [initial_weights(SIZES, rng) for _ in range(count)]


def test_in_self_play_the_opponents_are_the_model_and_its_past_selves(rng):
    first, *later = random_networks(rng, 6)
    opponents = opposition(rng, first, kind="selfplay", size=3)
    assert all(same(member(opponents.members(), place), first) for place in range(3))
    history = [first, first, first]
    for model in later:
        assert opponents.renew(model, rng) == {}
        history = [model, *history[:2]]
        for place, expected in enumerate(history):
            assert same(member(opponents.members(), place), expected)


def test_the_tasks_of_self_play_are_past_selves_and_immigrants(rng):
    first, second = random_networks(rng, 2)
    opponents = opposition(rng, first, kind="selfplay", size=2, immigrants=3)
    opponents.renew(second, rng)
    chosen = opponents.sample(9, rng)
    is_past_self = [
        same(member(chosen, k), first) or same(member(chosen, k), second) for k in range(9)
    ]
    assert is_past_self == [True] * 6 + [False] * 3


def test_random_opponents_are_drawn_anew_in_every_iteration(rng):
    one, other = (
        opposition(np.random.default_rng(1), kind="random", size=5) for _ in range(2)
    )  # fmt: skip
    before = one.members()
    for seed, (model, another) in enumerate(
        zip(random_networks(rng, 3), random_networks(rng, 3), strict=True)
    ):
        one.renew(model, np.random.default_rng(seed))
        other.renew(another, np.random.default_rng(seed))
        assert same(one.members(), other.members())
        for place in range(5):
            assert not any(same(member(one.members(), place), member(before, k)) for k in range(5))
        before = one.members()


def test_each_task_has_its_own_random_opponent(rng):
    opponents = opposition(rng, kind="random", size=6)
    chosen = opponents.sample(6, rng)
    assert len({chosen["w0"][k].tobytes() for k in range(6)}) == 6


@pytest.mark.parametrize("kind", TRAINED)
def test_only_an_evolving_population_is_scored(kind):
    content = {
        "trainer": "meta", "game": "kuhn", "meta": {"hidden": [8], "games": 20},
        "population": {"kind": kind}, "evaluate": {"opponents": ["random"], "repeats": 2},
    }  # fmt: skip
    trainer = MetaTrainer(job_file.parse(content, JOBS, "this test"), LocalPool())
    metrics = trainer.step()
    assert ("fitness_best" in metrics) == (kind == "evolving")


@pytest.mark.parametrize("kind", TRAINED)
def test_opponents_stay_from_one_renewal_to_the_next(kind):
    content = {
        "trainer": "meta", "game": "kuhn", "meta": {"hidden": [8], "games": 20},
        "population": {"kind": kind, "every": 2},
        "evaluate": {"opponents": ["random"], "repeats": 2},
    }  # fmt: skip
    trainer = MetaTrainer(job_file.parse(content, JOBS, "this test"), LocalPool())
    opponents = []
    for _ in range(4):
        trainer.step()
        opponents.append({n: v.copy() for n, v in trainer.population.members().items()})
    assert [same(one, other) for one, other in itertools.pairwise(opponents)] == [True, False, True]


def test_new_members_may_have_smaller_standard_deviations_than_the_learner(rng):
    founder = {**initial_weights(SIZES, rng), LOG_STD: np.full(3, np.log(0.5), np.float32)}
    members = opposition(rng, founder, kind="random", size=4, action_std_scale=0.1).members()
    np.testing.assert_allclose(np.exp(members[LOG_STD]), np.full((4, 3), 0.05), rtol=1e-6)

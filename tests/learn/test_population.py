"""Genetic algorithm: selection, crossover and mutation."""

from __future__ import annotations

import numpy as np
import pytest

from overtrick.population.genetic import EvolutionConfig, elite_count, evolve, select
from overtrick.population.population import Population, with_candidate

MEMBERS = 10


def marked(members=MEMBERS):
    """Return a population in which every gene of member m is m + 1."""
    marks = np.arange(1.0, members + 1, dtype=np.float32)
    return {
        "w0": np.tile(marks[:, None, None], (1, 20, 30)),
        "b0": np.tile(marks[:, None], (1, 40)),
    }


def genes(weights, member):
    """Return all genes of a member as one vector."""
    return np.concatenate([value[member].ravel() for value in weights.values()])


@pytest.fixture
def fitness(rng):
    return rng.permutation(MEMBERS).astype(float)


def test_select_returns_the_fittest_best_first():
    assert select(np.array([1.0, 5.0, -2.0, 5.0]), 3).tolist() == [1, 3, 0]


def test_a_population_always_has_an_elite():
    assert elite_count(10, 0.2) == 2
    assert elite_count(10, 0.0) == 1
    assert elite_count(10, 1.0) == 10


@pytest.mark.parametrize("share", [0.0, 0.2, 0.5, 1.0])
def test_the_elite_comes_first_and_unchanged(rng, fitness, share):
    weights = marked()
    following = evolve(weights, fitness, EvolutionConfig(share, 1.0, 0.5), rng)
    best = np.argsort(-fitness)
    for place in range(elite_count(MEMBERS, share)):
        assert np.array_equal(genes(following, place), genes(weights, best[place]))
    for name, value in following.items():
        assert value.shape == weights[name].shape
        assert value.dtype == np.float32


def test_evolution_changes_nothing_in_the_old_generation(rng, fitness):
    weights = marked()
    evolve(weights, fitness, EvolutionConfig(0.2, 1.0, 0.5), rng)
    assert all(np.array_equal(weights[name], value) for name, value in marked().items())


def test_a_child_has_the_genes_of_itself_and_of_one_elite_member(rng, fitness):
    weights = marked()
    following = evolve(weights, fitness, EvolutionConfig(0.3, 0.0, 0.5), rng)
    order = np.argsort(-fitness) + 1
    elite = set(order[:3].tolist())
    mates = []
    for place in range(3, MEMBERS):
        child = genes(following, place)
        others = set(child.tolist()) - {float(order[place])}
        assert len(others) == 1
        assert others <= elite
        mates += others
        own = (child == order[place]).mean()
        assert abs(own - 0.5) < 5 * np.sqrt(0.25 / len(child))
    assert len(set(mates)) > 1  # not all with the same elite member


def test_without_mutation_a_population_of_equal_members_stays_the_same(rng, fitness):
    twins = {name: np.ones_like(value) for name, value in marked().items()}
    for plan in (EvolutionConfig(0.2, 0.0, 0.5), EvolutionConfig(0.2, 1.0, 0.0)):
        following = evolve(twins, fitness, plan, rng)
        assert all(np.array_equal(following[name], twins[name]) for name in twins)


def test_at_rate_1_all_but_the_elite_mutate_with_the_given_strength(rng, fitness):
    strength = 0.1
    twins = {"w0": np.full((MEMBERS, 50, 60), 3.0), "b0": np.full((MEMBERS, 4000), 0.0)}
    following = evolve(twins, fitness, EvolutionConfig(0.2, 1.0, strength), rng)
    for name, value in following.items():
        noise = (value - twins[name])[2:].reshape(MEMBERS - 2, -1)
        assert (noise != 0).mean() > 0.999
        scale = strength * 3.0  # the scale of the layer's weights, also for its biases
        error = 5 * scale / np.sqrt(2 * noise.shape[1])
        assert (np.abs(noise.std(axis=1) - scale) < error).all()
        assert (np.abs(noise.mean(axis=1)) < 5 * scale / np.sqrt(noise.shape[1])).all()


def test_the_mutation_rate_is_the_share_of_children_that_mutate(rng):
    members = 2000
    twins = {"w0": np.ones((members, 3, 2)), "b0": np.ones((members, 2))}
    fitness = rng.normal(size=members)
    following = evolve(twins, fitness, EvolutionConfig(0.0, 0.3, 0.5), rng)
    mutated = [(value != 1).reshape(members, -1) for value in following.values()]
    everywhere = np.concatenate(mutated, axis=1)
    assert (everywhere.all(axis=1) == everywhere.any(axis=1)).all()  # all genes or none
    share = everywhere[1:].all(axis=1).mean()
    assert abs(share - 0.3) < 5 * np.sqrt(0.3 * 0.7 / members)


def test_the_same_seed_gives_the_same_generation(fitness):
    one, two = (
        evolve(marked(), fitness, EvolutionConfig(0.2, 0.5, 0.5), np.random.default_rng(3))
        for _ in range(2)
    )
    assert all(np.array_equal(one[name], two[name]) for name in one)


def candidate():
    """Return a network whose genes are all 99."""
    return {name: np.full(value.shape[1:], 99, np.float32) for name, value in marked().items()}


def unchanging_population():
    """Return a population without selection and mutation, whose members can be recognised."""
    return Population(marked(), EvolutionConfig(1.0, 0.0, 0.0))


def test_a_candidate_is_the_last_member():
    population = unchanging_population()
    joined = with_candidate(population.weights, candidate())
    assert len(joined["w0"]) == MEMBERS + 1
    assert (genes(joined, MEMBERS) == 99).all()
    assert population.size == MEMBERS


def test_a_candidate_replaces_the_worst_member(rng, fitness):
    population = unchanging_population()
    scores = np.append(fitness, fitness.max() + 1)
    population.replace_worst(candidate(), scores, rng)
    assert population.size == MEMBERS
    marks = population.weights["b0"][:, 0]
    order = np.argsort(-fitness) + 1
    assert marks.tolist() == [99, *order[:-1].tolist()]


def test_a_candidate_that_is_the_worst_is_removed_at_once(rng, fitness):
    population = unchanging_population()
    population.replace_worst(candidate(), np.append(fitness, fitness.min() - 1), rng)
    assert 99 not in population.weights["b0"]
    assert set(population.weights["b0"][:, 0]) == set(range(1, MEMBERS + 1))


def test_a_population_keeps_its_size_and_its_best_member(rng):
    population = Population(marked(), EvolutionConfig(0.2, 0.5, 0.1))
    for _ in range(5):
        scores = rng.normal(size=MEMBERS + 1)
        joined = with_candidate(population.weights, candidate())
        best = genes(joined, int(scores.argmax()))
        summary = population.replace_worst(candidate(), scores, rng)
        assert population.size == MEMBERS
        assert np.array_equal(genes(population.weights, 0), best)
        assert summary["fitness_best"] == scores.max()
        assert summary["fitness_worst"] == scores.min()
        assert abs(summary["fitness_mean"] - scores.mean()) < 1e-12


def test_a_population_resumes_from_its_state(fitness):
    one = Population(marked(), EvolutionConfig(0.2, 0.5, 0.1))
    scores = np.append(fitness, 3.5)
    one.replace_worst(candidate(), scores, np.random.default_rng(1))
    two = Population(has_candidate(), EvolutionConfig(0.2, 0.5, 0.1))
    two.load({name: value.copy() for name, value in one.state().items()})
    for population in (one, two):
        population.replace_worst(candidate(), scores[::-1], np.random.default_rng(2))
    assert one.state().keys() == two.state().keys()
    assert all(np.array_equal(one.state()[name], two.state()[name]) for name in one.state())


def has_candidate():
    return {name: np.stack([value] * MEMBERS) for name, value in candidate().items()}

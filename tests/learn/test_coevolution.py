"""Evolution strategies and coevolution: exact answers, laws of genomes, inner evaluations."""

from __future__ import annotations

import shutil
from types import SimpleNamespace

import numpy as np
import psutil
import pytest

from overtrick.config import job_file
from overtrick.core import UserError
from overtrick.datasets.card_abstraction_build import AbstractionConfig
from overtrick.datasets.chunked_build import generate
from overtrick.distributed.workers import LocalPool
from overtrick.games import registry
from overtrick.population.evolution_strategy import EvolutionStrategy
from overtrick.population.genomes import DirectEncoding, PerceptronEncoding
from overtrick.solvers.extensive import best_response
from overtrick.training.equilibrium.best_response_payoff import Inner, estimate_best_response
from overtrick.training.equilibrium.strategy_evaluator import BucketedEvaluator, TreeEvaluator
from overtrick.training.registry import JOBS, TRAINERS


def trainer(game, seed=0, inner=None, **section):
    content = {
        "trainer": "coevolve", "game": game, "seed": seed, "coevolve": section,
        "inner": inner or {},
    }  # fmt: skip
    job = job_file.parse(content, JOBS, "this test")
    return TRAINERS["coevolve"].trainer(job, LocalPool())


def evolved(game, generations, **section):
    """Train for some generations and return the trainer."""
    one = trainer(game, generations=generations, **section)
    one.step()
    return one


def genomes_of(game_and_tree, name):
    game, tree = game_and_tree(name)
    yield DirectEncoding(tree.legal)
    yield PerceptronEncoding(game.compact_features(tree.observations), tree.legal, 4)


@pytest.mark.parametrize("name", ["brps", "kuhn", "kuhn_three", "one_card", "leduc"])
def test_every_genome_is_a_strategy(game_and_tree, rng, name):
    _, tree = game_and_tree(name)
    for genome in genomes_of(game_and_tree, name):
        sigmas = genome.strategies(rng.normal(scale=3, size=(20, genome.genes)))
        assert sigmas.shape == (20, *tree.legal.shape)
        for sigma in sigmas:
            best_response.check_strategy(tree, sigma)


def test_the_zero_genome_is_uniform_play(game_and_tree):
    _, tree = game_and_tree("leduc_textbook")
    for genome in genomes_of(game_and_tree, "leduc_textbook"):
        (sigma,) = genome.strategies(np.zeros((1, genome.genes)))
        assert np.abs(sigma - tree.uniform()).max() < 1e-12


def test_a_direct_genome_can_represent_any_strategy(game_and_tree, rng):
    _, tree = game_and_tree("kuhn")
    sigma = np.array([rng.dirichlet(np.ones(2)) for _ in range(tree.infosets)])
    (same,) = DirectEncoding(tree.legal).strategies(np.sqrt(sigma[tree.legal])[None])
    assert np.abs(same - sigma).max() < 1e-12


def test_a_perceptron_is_equation_6_written_out(game_and_tree, rng):
    game, tree = game_and_tree("kuhn")
    inputs, hidden = game.compact_features(tree.observations), 3
    genome = PerceptronEncoding(inputs, tree.legal, hidden)
    genes = rng.normal(size=(1, genome.genes))
    w0, b0, w1, b1 = np.split(genes[0], np.cumsum([9, 3, 6]))
    for row in (0, 5, 11):
        h = [np.tanh(sum(inputs[row, i] * w0[3 * i + k] for i in range(3)) + b0[k])
             for k in range(hidden)]  # fmt: skip
        out = [sum(h[k] * w1[2 * k + a] for k in range(hidden)) + b1[a] for a in range(2)]
        weights = 1 / (1 + np.exp(-np.array(out)))
        assert np.abs(genome.strategies(genes)[0, row] - weights / weights.sum()).max() < 1e-12


def test_a_network_with_extreme_outputs_is_still_a_strategy():
    legal = np.array([[True, True, False]])
    network = PerceptronEncoding(np.ones((1, 1)), legal, 1)
    genome = np.array([[0, 0, 0, 0, 0, -1e5, -1e5, 1e5]])  # the output biases are last
    weights = network.weights(genome)
    assert (weights[0, 0, :2] > 0).all()
    assert weights[0, 0, 0] == weights[0, 0, 1]
    assert weights[0, 0, 2] == 0


def test_a_genome_of_the_wrong_length_is_refused(game_and_tree):
    for genome in genomes_of(game_and_tree, "kuhn"):
        with pytest.raises(UserError, match=f"genome must have {genome.genes} numbers"):
            genome.strategies(np.zeros((2, genome.genes + 1)))


@pytest.mark.parametrize("kind", ["csa", "cma"])
def test_an_evolution_strategy_maximises_a_paraboloid(kind):
    top = np.array([1.0, -2, 3])
    strategy = EvolutionStrategy(lambda _: np.zeros(3), 0.5, 10, kind, np.random.default_rng(1))
    nearest = np.inf
    for _ in range(150):
        genomes = strategy.ask()
        strategy.tell(genomes, -((genomes - top) ** 2).sum(axis=1))
        nearest = min(nearest, np.abs(genomes - top).max(axis=1).min())
    assert nearest < 1e-3


def test_an_evolution_strategy_restarts_after_convergence():
    rng = np.random.default_rng(1)
    strategy = EvolutionStrategy(lambda rng: rng.normal(size=2), 0.1, 6, "cma", rng)
    for _ in range(400):
        genomes = strategy.ask()
        strategy.tell(genomes, -(genomes**2).sum(axis=1))
    assert strategy.starts > 1


def test_a_loaded_evolution_strategy_asks_the_same_genomes():
    def fresh():
        return EvolutionStrategy(
            lambda r: r.normal(size=4), 0.3, 8, "cma", np.random.default_rng(5)
        )

    first, second = fresh(), fresh()
    for _ in range(30):
        genomes = first.ask()
        first.tell(genomes, -np.abs(genomes).sum(axis=1))
    second.load(first.state())
    assert (first.ask() == second.ask()).all()


def test_a_state_whose_genomes_cannot_be_sampled_again_is_refused():
    """As on a processor that rounds differently."""

    def fresh():
        return EvolutionStrategy(
            lambda r: r.normal(size=4), 0.3, 8, "cma", np.random.default_rng(5)
        )

    first = fresh()
    for _ in range(3):
        genomes = first.ask()
        first.tell(genomes, -np.abs(genomes).sum(axis=1))
    state = first.state()
    fresh().load(state | {"last": state["last"] + 1e-13})
    with pytest.raises(ValueError, match="this processor or version of cma rounds differently"):
        fresh().load(state | {"last": state["last"] + 0.1})


@pytest.mark.parametrize("change", [{"step": 0.6}, {"kind": "csa"}], ids=str)
def test_a_loaded_evolution_strategy_keeps_the_search_of_other_settings(change):
    """They hold from the next search on, and then survive another load."""

    def new(**changes):
        settings = {"step": 0.5, "size": 6, "kind": "cma", "rng": np.random.default_rng(4)}
        return EvolutionStrategy(lambda rng: rng.normal(size=2), **settings | changes)

    def advance(strategy, starts):
        while strategy.starts <= starts:
            genomes = strategy.ask()
            strategy.tell(genomes, -np.square(genomes).sum(axis=1))
        return genomes

    first = new()
    advance(first, 0)
    other = new(**change)
    other.load(first.state())
    assert np.array_equal(other.ask(), first.ask())
    other = new(**change)
    other.load(first.state())
    advance(other, 2)
    assert other.searches == [(0.5, "cma")] + [(other.step, other.kind)] * 2
    again = new(**change)
    again.load(other.state())
    assert np.array_equal(again.ask(), other.ask())


def test_an_evolution_strategy_does_not_use_numpys_global_generator():
    before = np.random.get_state()[1].copy()
    strategy = EvolutionStrategy(
        lambda r: r.normal(size=4), 0.3, 8, "csa", np.random.default_rng(5)
    )
    genomes = strategy.ask()
    strategy.tell(genomes, -np.abs(genomes).sum(axis=1))
    assert (np.random.get_state()[1] == before).all()


@pytest.mark.parametrize("seed", range(5))
def test_biased_rock_paper_scissors_is_solved_to_6_digits(seed):
    one = evolved("brps", 300, seed=seed, strategy="cma")
    assert np.abs(one.sigma() - np.array([1, 10, 5]) / 16).max() < 1e-6


def test_a_network_without_inputs_solves_biased_rock_paper_scissors():
    one = evolved("brps", 400, genome="network", hidden=1, strategy="cma")
    assert np.abs(one.sigma() - np.array([1, 10, 5]) / 16).max() < 1e-3


def test_a_network_approaches_an_equilibrium_of_kuhn():
    one = evolved("kuhn", 800, genome="network", strategy="cma")
    assert best_response.exploitability(one.evaluator.tree, one.sigma()) < 0.003


def test_the_unique_equilibrium_strategy_of_kuhns_second_player_is_found():
    """Facing a bet call with 0, 1/3, 1; after a pass bet with 1/3, 0, 1 (Kuhn 1950)."""
    one = evolved("kuhn", 800, seat=1, strategy="cma")
    bets = {
        one.evaluator.game.describe(observed): row[1]
        for observed, row in zip(
            one.evaluator.tree.observations.observation, one.sigma(), strict=True
        )
    }
    wanted = {
        "J after bet": 0, "Q after bet": 1 / 3, "K after bet": 1,
        "J after pass": 1 / 3, "Q after pass": 0, "K after pass": 1,
    }  # fmt: skip
    for situation, probability in wanted.items():
        assert abs(bets[situation] - probability) < 0.01
    (row,) = one.report([(1, one.step())]).rows
    assert row["exploitability"] == pytest.approx(0, abs=0.005)  # the values of the seats are ±1/18


def test_kuhn_for_three_reaches_a_small_nash_conv():
    one = evolved("kuhn_three", 1000, strategy="cma")
    assert best_response.nash_conv(one.evaluator.tree, one.sigma()) < 0.1


@pytest.mark.parametrize("name", ["kuhn", "one_card"])
def test_search_at_full_depth_equals_the_exact_best_response(game_and_tree, rng, name):
    game, tree = game_and_tree(name)
    genome = PerceptronEncoding(game.compact_features(tree.observations), tree.legal, 4)
    for sigma in genome.strategies(rng.normal(size=(10, genome.genes))):
        for seat in range(2):
            asked = (TreeEvaluator(game, tree), genome, sigma, seat, np.zeros(genome.genes), 0, rng)
            exact, _ = estimate_best_response(Inner(kind="exact"), *asked)
            searched, _ = estimate_best_response(Inner(kind="searched"), *asked)
            assert abs(exact - searched) < 1e-9


def test_an_inner_evolution_is_a_close_lower_bound(game_and_tree, rng):
    game, tree = game_and_tree("kuhn")
    genome = DirectEncoding(tree.legal)
    sigma = genome.strategies(rng.normal(size=(1, genome.genes)))[0]
    for seat in range(2):
        exact = best_response.best_response(tree, sigma, seat)[0]
        asked = (
            TreeEvaluator(game, tree),
            genome,
            sigma,
            seat,
            rng.normal(size=genome.genes),
            0,
            rng,
        )
        few, _ = estimate_best_response(Inner(kind="evolved", generations=1), *asked)
        many, reply = estimate_best_response(Inner(kind="evolved", generations=200), *asked)
        assert few <= exact + 1e-12
        assert exact - 0.01 < many <= exact + 1e-12
        warm = (*asked[:4], reply, 0, rng)  # a warm start keeps the response found before
        assert estimate_best_response(Inner(kind="evolved", generations=1), *warm)[0] >= many


@pytest.mark.parametrize("kind", ["exact", "searched", "evolved"])
def test_every_inner_evaluation_leads_toward_an_equilibrium(kind):
    inner = {"kind": kind} | ({"generations": 10} if kind == "evolved" else {})
    one = trainer("kuhn", strategy="cma", generations=60, inner=inner)
    start = best_response.exploitability(one.evaluator.tree, one.sigma())
    one.step()
    assert best_response.exploitability(one.evaluator.tree, one.sigma()) < start / 3


def test_the_best_genome_has_the_highest_score_so_far():
    one = evolved("brps", generations=15, strategy="cma")
    told = np.concatenate(one.strategy.scores)
    assert one.best_score == told.max() > told[-1] - 1e-9
    gap = best_response.nash_conv(one.evaluator.tree, one.sigma())
    assert -one.best_score == pytest.approx(gap)


def test_a_loaded_trainer_continues_with_identical_results():
    first, second, one = (
        trainer("kuhn", generations=5, inner={"kind": "evolved", "generations": 2})
        for _ in range(3)
    )
    first.step()
    one.step()
    second.load(first.state())
    assert second.step() == one.step()
    assert (second.model()["genome"] == one.model()["genome"]).all()


def test_the_report_has_the_gap_and_the_figures():
    one = trainer("kuhn", generations=5)
    history = [(k, one.step()) for k in (1, 2, 3)]
    report = one.report(history)
    (row,) = report.rows
    assert row["exploitability"] == pytest.approx(history[-1][1]["exploitability_chip/direct"])
    assert set(report.figures) == {"progress", "strategy", "tree"}


@pytest.mark.parametrize(
    ("game", "section", "match"),
    [
        ("kuhn", {"seat": 2}, "seat 2"),
        ("kuhn_three", {"seat": 0}, "2-seat games"),
        ("kuhn", {"population": 1}, "greater than or equal to 4"),
        ("kuhn", {"genome": "neural"}, "'direct' or 'network'"),
    ],
)
def test_unsuitable_games_and_sections_are_refused(game, section, match):
    with pytest.raises(UserError, match=match):
        trainer(game, **section)


def test_a_network_needs_a_game_with_inputs():
    job = job_file.parse(
        {"trainer": "coevolve", "game": "openspiel/kuhn_poker", "coevolve": {"genome": "network"}},
        JOBS,
        "this test",
    )
    with pytest.raises(UserError, match="no inputs for a network"):
        TRAINERS["coevolve"].validate(job)


@pytest.mark.parametrize("genome", ["direct", "network"])
@pytest.mark.parametrize("joint", [False, True])
def test_abstract_holdem_is_trained_and_evaluated_from_its_model(abstraction, genome, joint):
    game = {"name": "abstract_holdem", "abstraction": str(abstraction), "joint": joint}
    one = trainer(game, genome=genome, strategy="cma", population=6, generations=5)
    start = one.evaluator.nash_convs(one.sigma()[None])[0]
    history = [(k, one.step()) for k in range(1, 4)]
    assert one.evaluator.nash_convs(one.sigma()[None])[0] < start
    report = one.report(history)
    assert set(report.figures) == {"progress", "buckets", "intensity"}
    page = TRAINERS["coevolve"]
    assert (
        page.evaluate_model(one.job, one.model(), LocalPool(), np.random.default_rng(0))
        == report.rows
    )


def test_a_model_with_another_genome_or_abstraction_is_refused(abstraction, tmp_path):
    file = tmp_path / "mine.parquet"
    shutil.copy(abstraction, file)
    one = trainer({"name": "abstract_holdem", "abstraction": str(file)}, genome="network")
    page, rng = TRAINERS["coevolve"], np.random.default_rng(0)
    weights = one.model()
    with pytest.raises(UserError, match="a genome must have 39 numbers, not 38"):
        page.evaluate_model(
            one.job, {**weights, "genome": weights["genome"][:-1]}, LocalPool(), rng
        )
    with pytest.raises(UserError, match="differs from its genome's"):
        page.evaluate_model(
            one.job, {**weights, "genome": weights["genome"] + 0.1}, LocalPool(), rng
        )
    counts = ["ranks=5", "preflop=300", "flop=20", "turn=10", "river=5", "deals=20000", "seed=7"]
    file.unlink()
    generate(AbstractionConfig.parse(counts), file, LocalPool())
    with pytest.raises(UserError, match=r"mine.parquet is not the abstraction of the earlier run"):
        BucketedEvaluator(registry.make("abstract_holdem", **one.job.game.options))


def test_unsupported_uses_of_abstract_holdem_are_refused(abstraction, tmp_path, monkeypatch):
    def check(game, **sections):
        content = {"trainer": "coevolve", "game": {"name": "abstract_holdem", **game}, **sections}
        TRAINERS["coevolve"].validate(job_file.parse(content, JOBS, "this test"))

    here = {"abstraction": str(abstraction)}
    with pytest.raises(UserError, match=r"no tree to search: set inner.kind to exact"):
        check(here, inner={"kind": "searched"})
    with pytest.raises(UserError, match="one seat evolves alone only in games with a tree"):
        check(here, coevolve={"seat": 0})
    with pytest.raises(UserError, match="a network needs betting situations"):
        check({**here, "index": "public"}, coevolve={"genome": "network"})
    with pytest.raises(UserError, match=r"no abstraction at .*: build it with `overtrick generate"):
        check({"abstraction": str(tmp_path / "none.parquet")})
    with pytest.raises(UserError, match="index must be paper or public, not 'mine'"):
        check({**here, "index": "mine"})
    check(here, coevolve={"strategy": "cma"})
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=1000))
    with pytest.raises(UserError, match=r"cma needs .* GiB of memory for the covariances of"):
        check(here, coevolve={"strategy": "cma"})

"""How much can be won by how little can be lost: exact laws on small games."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from typer.testing import CliRunner

from overtrick import cli
from overtrick.config import job_file
from overtrick.core import UserError
from overtrick.distributed.workers import LocalPool
from overtrick.evaluation import reference_opponents
from overtrick.evaluation.evaluate import best_response_payoff, exact_payoff
from overtrick.evaluation.game_cache import equilibrium_of
from overtrick.policies.uniform import Uniform
from overtrick.solvers import cfr, safe_exploitation, sequence_form
from overtrick.solvers.extensive import best_response
from overtrick.solvers.extensive.traversal import plan
from overtrick.storage import model_files
from overtrick.studies.safety import BOUNDS, TRUSTS
from overtrick.training.registry import JOBS, TRAINERS

GAMES = ["kuhn", "leduc"]
ROUNDING = 1e-9

TINY = {
    "trainer": "meta",
    "game": "kuhn",
    "stop": {"iterations": 1},
    "meta": {"hidden": [8], "tasks": 2, "games": 20},
    "adaptation": {"gradient_estimator": "opponent_model"},
    "population": {"size": 2, "fitness_games": 10},
    "evaluate": {"opponents": ["random", "call"], "steps": 2, "games": 20, "repeats": 3},
}
SAMPLED = ("adaptation.gradient_estimator=critic",)


@pytest.fixture
def met(whole):
    """met(name): a tree, its exact equilibrium, and what the caller does there."""

    def of(name):
        game, tree = whole(name)
        opponent = best_response.sigma_of(
            tree, [reference_opponents.stranger("call", game, tree)] * 2
        )
        return tree, sequence_form.equilibrium(tree)[1], opponent

    return of


def best(tree, opponent):
    """A best response in both seats."""
    found = [best_response.best_response(tree, opponent, seat)[1] for seat in range(2)]
    return np.where((tree.observations.seat == 0)[:, None], *found)


def realised(tree, sigma):
    return plan(tree, tree.flat(sigma))


@pytest.mark.parametrize("name", GAMES)
def test_a_mixtures_plan_is_the_mixture_of_the_plans(whole, some_strategies, rng, name):
    _, tree = whole(name)
    one, *others = some_strategies(tree, rng)
    for other, share in zip(others, rng.random(len(others)), strict=True):
        mixed = realised(tree, safe_exploitation.mix(tree, one, other, share))
        wanted = (1 - share) * realised(tree, one) + share * realised(tree, other)
        assert np.abs(mixed - wanted).max() < 1e-12


@pytest.mark.parametrize("name", GAMES)
def test_a_mixture_wins_the_mean_of_what_is_mixed(whole, some_strategies, rng, name):
    """Averaging probabilities set by set would not."""
    _, tree = whole(name)
    one, other, opponent, *_ = some_strategies(tree, rng)
    mixed = safe_exploitation.mix(tree, one, other, 0.3)
    ends = [exact_payoff(tree, each, opponent) for each in (one, other)]
    assert abs(exact_payoff(tree, mixed, opponent) - 0.7 * ends[0] - 0.3 * ends[1]) < 1e-12
    naive = exact_payoff(tree, 0.7 * one + 0.3 * other, opponent)
    assert abs(naive - 0.7 * ends[0] - 0.3 * ends[1]) > 1e-3


@pytest.mark.parametrize("name", GAMES)
def test_where_a_mixtures_choices_never_lead_the_safe_one_stands(whole, name):
    _, tree = whole(name)
    one = tree.uniform()
    last = tree.legal & (np.cumsum(tree.legal[:, ::-1], axis=1)[:, ::-1] == 1)
    other = last.astype(float)  # always the last action
    assert (safe_exploitation.mix(tree, one, other, 0) == one).all()
    whole_share = safe_exploitation.mix(tree, one, other, 1)
    leads = realised(tree, other)[tree.past] > 0
    assert np.abs(whole_share - np.where(leads[:, None], other, one)).max() < 1e-15
    assert not leads.all()


@pytest.mark.parametrize("name", GAMES)
def test_exploitability_is_convex_in_the_share(whole, some_strategies, rng, name):
    _, tree = whole(name)
    one, *others = some_strategies(tree, rng, 4)
    bends = []
    for other in others:
        gaps = [
            best_response.exploitability(tree, safe_exploitation.mix(tree, one, other, share))
            for share in np.linspace(0, 1, 21)
        ]
        assert np.diff(gaps, 2).min() > -ROUNDING
        bends.append(np.diff(gaps, 2).max())
    assert max(bends) > 1e-4  # it is not merely linear


@pytest.mark.parametrize("bound", [0.01, 0.1, 0.3])
@pytest.mark.parametrize("name", GAMES)
def test_within_reaches_its_bound_and_never_passes_it(met, name, bound):
    tree, equilibrium, opponent = met(name)
    free = best(tree, opponent)
    assert best_response.exploitability(tree, free) > bound
    for safe in (equilibrium, cfr.solve(tree, 100)):
        start = best_response.exploitability(tree, safe)
        sigma, share = safe_exploitation.within(tree, safe, free, bound)
        gap = best_response.exploitability(tree, sigma)
        assert start + bound - ROUNDING < gap <= start + bound + 1e-12
        assert 0 < share < 1
        more = safe_exploitation.mix(tree, safe, free, share + 1e-6)
        assert best_response.exploitability(tree, more) > start + bound
        won = [exact_payoff(tree, each, opponent) for each in (safe, sigma, free)]
        assert won[0] < won[1] < won[2]


@pytest.mark.parametrize("name", GAMES)
def test_what_is_safe_already_is_left_alone(met, name):
    tree, equilibrium, _ = met(name)
    free = cfr.solve(tree, 200)
    bound = best_response.exploitability(tree, free) + 1e-6
    sigma, share = safe_exploitation.within(tree, equilibrium, free, bound)
    assert share == 1
    assert np.abs(realised(tree, sigma) - realised(tree, free)).max() < 1e-15
    assert safe_exploitation.nearest(tree, equilibrium, free, bound) is free


@pytest.mark.parametrize("name", GAMES)
def test_bound_0_is_as_safe_as_an_equilibrium(met, name):
    tree, equilibrium, opponent = met(name)
    free = best(tree, opponent)
    for sigma in (
        safe_exploitation.within(tree, equilibrium, free, 0)[0],
        safe_exploitation.nearest(tree, equilibrium, free, 0),
        safe_exploitation.safest_response(tree, opponent, 0),
    ):
        assert abs(best_response.exploitability(tree, sigma)) < ROUNDING


@pytest.mark.parametrize("name", GAMES)
def test_restricted_responses_go_from_an_equilibrium_to_a_best_response(met, name):
    tree, _, opponent = met(name)
    trusts = np.linspace(0, 1, 9)
    found = [safe_exploitation.restricted_response(tree, opponent, trust) for trust in trusts]
    won = np.array([exact_payoff(tree, sigma, opponent) for sigma in found])
    gaps = np.array([best_response.exploitability(tree, sigma) for sigma in found])
    assert gaps[0] < ROUNDING
    assert abs(won[-1] - best_response_payoff(tree, opponent)) < ROUNDING
    assert np.diff(won).min() > -ROUNDING
    assert np.diff(gaps).min() > -ROUNDING
    assert won[-1] - won[0] > 0.1
    assert len({round(gap, 6) for gap in gaps}) > 2  # there is a frontier between the ends


@pytest.mark.parametrize("name", GAMES)
def test_no_mixture_or_strategy_is_above_the_frontier(met, some_strategies, rng, name):
    """By its definition as an equilibrium of the restricted game, for every trust."""
    tree, equilibrium, opponent = met(name)
    free = best(tree, opponent)
    others = [safe_exploitation.mix(tree, equilibrium, free, share) for share in (0.1, 0.5, 0.9)]
    others += [
        safe_exploitation.nearest(tree, equilibrium, free, 0.1),
        *some_strategies(tree, rng, 5),
    ]
    points = [
        (exact_payoff(tree, s, opponent), best_response.exploitability(tree, s)) for s in others
    ]
    for trust in (0, 0.3, 0.7, 1):
        sigma = safe_exploitation.restricted_response(tree, opponent, trust)
        gap = best_response.exploitability(tree, sigma)
        reached = trust * exact_payoff(tree, sigma, opponent) - (1 - trust) * gap
        assert all(trust * won - (1 - trust) * gap <= reached + ROUNDING for won, gap in points)


@pytest.mark.parametrize("bound", [0.02, 0.2])
@pytest.mark.parametrize("name", GAMES)
def test_the_safest_response_wins_the_most_at_its_exploitability(met, name, bound):
    tree, equilibrium, opponent = met(name)
    sigma = safe_exploitation.safest_response(tree, opponent, bound)
    won = exact_payoff(tree, sigma, opponent)
    assert best_response.exploitability(tree, sigma) < bound + ROUNDING
    free = best(tree, opponent)
    held = safe_exploitation.nearest(tree, equilibrium, free, bound)
    mixed = safe_exploitation.within(tree, equilibrium, free, bound)[0]
    assert won > exact_payoff(tree, held, opponent) - ROUNDING
    assert won > exact_payoff(tree, mixed, opponent) + 0.005
    restricted = safe_exploitation.restricted_response(tree, opponent, 0.5)
    again = safe_exploitation.safest_response(
        tree, opponent, best_response.exploitability(tree, restricted)
    )
    same = exact_payoff(tree, restricted, opponent)
    assert abs(exact_payoff(tree, again, opponent) - same) < 1e-7


@pytest.mark.parametrize("bound", [0.02, 0.2])
@pytest.mark.parametrize("name", GAMES)
def test_the_nearest_safe_strategy_is_nearer_than_any_mixture(met, name, bound):
    tree, safe, opponent = met(name)
    free = best(tree, opponent)
    held = safe_exploitation.nearest(tree, safe, free, bound)
    assert abs(best_response.exploitability(tree, held) - bound) < ROUNDING
    matters = np.zeros(len(tree.owner))
    for seat in range(2):
        others = best_response.reach(tree, tree.uniform(), without=seat)
        for node in np.flatnonzero(tree.seat == seat):
            matters[tree.owner == tree.infoset[node]] += others[node]

    def distance(sigma):
        return matters @ np.abs(realised(tree, sigma) - realised(tree, free))[1:]

    mixed = safe_exploitation.within(tree, safe, free, bound)[0]
    assert distance(held) < distance(mixed) - 0.01


def test_what_no_bound_can_be_kept_for_is_refused(whole):
    _, three = whole("kuhn_three")
    _, tree = whole("kuhn")
    sigma = tree.uniform()
    with pytest.raises(UserError, match="a bound on exploitability needs 2 seats: this game has 3"):
        safe_exploitation.within(three, three.uniform(), three.uniform(), 0.1)
    for bound in (-0.1, math.nan):
        for ask in (
            lambda b: safe_exploitation.within(tree, sigma, sigma, b),
            lambda b: safe_exploitation.nearest(tree, sigma, sigma, b),
            lambda b: safe_exploitation.safest_response(tree, sigma, b),
        ):
            with pytest.raises(UserError, match="must be at least 0"):
                ask(bound)
    with pytest.raises(UserError, match=r"trust must be 0 to 1, not 1\.1"):
        safe_exploitation.restricted_response(tree, sigma, 1.1)
    with pytest.raises(UserError, match="for another game"):
        safe_exploitation.mix(tree, sigma, whole("brps")[1].uniform(), 0.5)


@pytest.mark.parametrize("name", GAMES)
def test_the_equilibrium_that_is_mixed_in_is_exact_and_wins_what_cfr_does(whole, name):
    """That of the linear program alone wins far less in Leduc."""
    game, tree = whole(name)
    choice = job_file.GameChoice(name=name)
    sigma = equilibrium_of(choice)
    assert abs(best_response.exploitability(tree, sigma)) < ROUNDING
    near = reference_opponents.stranger("cfr", game, tree).sigma
    for stranger in ("random", "call"):
        opponent = best_response.sigma_of(
            tree, [reference_opponents.stranger(stranger, game, tree)] * 2
        )
        won = [exact_payoff(tree, each, opponent) for each in (sigma, near)]
        assert abs(won[0] - won[1]) < 0.03


def judged(*overrides):
    """The rows of an untrained model of the tiny job."""
    job = job_file.parse(job_file.overridden(TINY, overrides), JOBS, "this test")
    page = TRAINERS["meta"]
    page.check(job)
    weights = page.trainer(job, LocalPool()).model()
    return page.judge(job, weights, LocalPool(), np.random.default_rng(3))


@pytest.mark.parametrize(
    "how", ["evaluate.bound_method=nearest", "adaptation.policy=best_response", ""]
)
def test_what_adapts_keeps_its_bound_after_every_step(how):
    bound = 0.03
    free = judged()
    held = judged(f"evaluate.exploitability_bound={bound}", *filter(None, [how]))
    for row, before in zip(held, free, strict=True):
        assert max(row["exploitability"]) < bound + ROUNDING
        assert min(before["exploitability"]) > bound + 0.1
        assert row["steps"] != before["steps"]
    # far enough from its bound, a policy is as free as without one
    if how != "adaptation.policy=best_response":
        loose = judged("evaluate.exploitability_bound=9", *filter(None, [how]))
        for row, before in zip(loose, free, strict=True):
            assert row["steps"] == pytest.approx(before["steps"], abs=1e-6)
            assert row["exploitability"] == pytest.approx(before["exploitability"], abs=1e-6)


def test_a_response_to_what_was_seen_comes_near_the_most_that_its_bound_allows(whole):
    game, tree = whole("kuhn")
    plays = (
        "evaluate.exploitability_bound=0.05",
        "adaptation.policy=best_response",
        "evaluate.games=2000",
    )
    for row in judged(*plays):
        policy = reference_opponents.stranger(row["stranger"], game, tree)
        opponent = best_response.sigma_of(tree, [policy] * 2)
        won = exact_payoff(tree, safe_exploitation.safest_response(tree, opponent, 0.05), opponent)
        assert 0.95 * won < row["steps"][-1] < won + 1e-6


def test_a_row_says_how_exploitable_each_policy_is(whole):
    """One who never adapts, so it is known."""
    _, tree = whole("kuhn")
    job = job_file.parse({"trainer": "exploit", "game": "kuhn"}, JOBS, "this test")
    weights = TRAINERS["exploit"].trainer(job, LocalPool()).model()
    weights = {name: np.zeros_like(array) for name, array in weights.items()}  # plays uniformly
    (row,) = TRAINERS["exploit"].judge(job, weights, LocalPool(), np.random.default_rng(0))
    uniform = best_response.sigma_of(tree, [Uniform()] * 2)
    assert row["exploitability"] == pytest.approx(
        [best_response.exploitability(tree, uniform)], abs=1e-6
    )


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (
            ["evaluate.exploitability_bound=-1"],
            "'evaluate.exploitability_bound' in this test: input should be greater",
        ),
        (
            ["adaptation.policy=best_response"],
            "adaptation.policy: best_response keeps a bound: set evaluate.exploitability_bound",
        ),
        (
            [
                "adaptation.policy=best_response",
                "evaluate.exploitability_bound=0.1",
                "adaptation.gradient_estimator=critic",
            ],
            "adaptation.policy: best_response needs adaptation.gradient_estimator aivat or",
        ),
        (
            [
                "game=holdem",
                "evaluate.exploitability_bound=1",
                "evaluate.opponents=[random]",
                *SAMPLED,
            ],
            "evaluate.exploitability_bound: a bound is kept on a tree, and holdem is too large "
            "for one",
        ),
    ],
)
def test_a_bound_that_cannot_be_kept_is_refused_before_any_work(overrides, said):
    with pytest.raises(UserError, match=said):
        judged(*overrides)


@pytest.fixture
def stored(tmp_path):
    """The folder of an untrained model of the tiny job."""
    job = job_file.parse(TINY, JOBS, "this test")
    weights = TRAINERS["meta"].trainer(job, LocalPool()).model()
    model_files.save(
        model_files.Model(weights, "kuhn", job.model_dump(mode="json")), tmp_path / "model"
    )
    return tmp_path / "model"


def test_the_command_draws_a_model_below_the_frontier(stored, tmp_path, whole):
    command = ["safety", str(stored), "--against", "call", "--json", "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(cli.app, command)
    answer = json.loads(done.stdout.splitlines()[-1])
    assert answer == json.loads((tmp_path / "out" / "safety.json").read_text())
    assert (tmp_path / "out" / "safety.png").stat().st_size > 10_000
    assert (answer["game"], answer["unit"]) == ("kuhn", "chip")
    (row,) = answer["rows"]
    assert row["stranger"] == "call"
    assert [point["trust"] for point in row["frontier"]] == list(TRUSTS)
    assert [point["bound"] for point in row["adapted"]] == [None, *BOUNDS]
    for point in row["adapted"]:
        assert point["payoff"] <= point["most"] + 1e-7
        if point["bound"] is not None:
            assert point["exploitability"] < point["bound"] + ROUNDING
    # from the caller of Kuhn a king wins 2, a queen nothing, and a jack loses 1
    assert row["frontier"][-1]["payoff"] == pytest.approx(1 / 3)
    assert (
        sorted(path.name for path in stored.iterdir())
        == [model_files.WEIGHTS, model_files.CARD][::-1]
    )


def test_the_study_of_what_does_not_adapt_is_refused(tmp_path):
    job = job_file.parse({"trainer": "exploit", "game": "kuhn"}, JOBS, "this test")
    weights = TRAINERS["exploit"].trainer(job, LocalPool()).model()
    model_files.save(
        model_files.Model(weights, "kuhn", job.model_dump(mode="json")), tmp_path / "one"
    )
    done = CliRunner().invoke(cli.app, ["safety", str(tmp_path / "one")])
    assert isinstance(done.exception, UserError)
    assert "a model of exploit does not adapt to strangers" in str(done.exception)

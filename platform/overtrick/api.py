"""The package in Python: `import overtrick as ot`, then `ot.solve("kuhn")` and the other functions.

A game is given by its name, with its options as keyword arguments, or as an object, such as a game
of your own. A player is a reference opponent by name, a champion, a run, the folder of a model, or
a policy of your own. Errors in the input are raised as UserError.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.random import Generator

from overtrick.config import job_file
from overtrick.config.job_file import GameChoice, Job
from overtrick.config.overrides import apply_overrides
from overtrick.core import Array, Observations, Policy, Rollout, UserError, WalkedGame
from overtrick.core.files import check_folder_name
from overtrick.distributed.workers import RngStream, generator
from overtrick.evaluation import reference_opponents
from overtrick.evaluation.board import (
    board_evaluation,
    board_match,
    bucket_board,
    bucket_match,
    opponent_files,
)
from overtrick.evaluation.board.board_match import MatchResult
from overtrick.evaluation.board.board_setting import NewPlayer
from overtrick.evaluation.board.bucket_match import NewPolicyPlayer
from overtrick.evaluation.board.end_observations import Told
from overtrick.evaluation.board.player_adapters import environment_player, openspiel_player
from overtrick.evaluation.exact_by_walks import best_responses_to, evaluate_players
from overtrick.games import registry
from overtrick.games.registry import make, names
from overtrick.policies.memoryless import MemorylessPolicy
from overtrick.policies.rollout import play as play_rollout
from overtrick.policies.tabular import TabularPolicy
from overtrick.reports.progress import OnProgress
from overtrick.runs import lifecycle
from overtrick.runs.lifecycle import FinishedRun
from overtrick.runs.listener import Listener
from overtrick.solvers.extensive import best_response as exact
from overtrick.solvers.extensive.tree import Tree, build
from overtrick.solvers.walks import view_policy
from overtrick.storage import locate, model_files
from overtrick.storage.champions import CHAMPION_PREFIX, Champion, champions
from overtrick.studies import exact_solutions
from overtrick.studies.exact_solutions import Solution
from overtrick.training.equilibrium.solve import TEMPERATURE
from overtrick.training.registry import JOBS, TRAINERS, adapts
from overtrick.training.tournament import PairResult, play_duplicate_boards

if TYPE_CHECKING:
    from overtrick.sweeps.sweep import FinishedSweep

__all__ = [
    "BestResponse",
    "Champion",
    "FunctionPolicy",
    "LoadedModel",
    "Observations",
    "Solution",
    "UserError",
    "best_response",
    "board",
    "champion",
    "champions",
    "environment_player",
    "exploitability",
    "load",
    "make",
    "match",
    "names",
    "openspiel_player",
    "play",
    "serve_player",
    "solve",
    "sweep",
    "train",
    "tree",
]

SAMPLED_BUDGETS = (50, 200, 600)
"""Numbers of games after which a player is evaluated on a board of a game without a tree."""

PlayerLike = Any
"""A player: a reference opponent or a run by name, champion:NAME, a model folder, a LoadedModel, a
Solution, a strategy (N, A), or any Policy."""


@dataclass(frozen=True)
class BestResponse:
    """Best responses to an opponent, one for each seat."""

    values: tuple[float, ...]  # expected payoff per game in each seat
    strategies: tuple[Array, ...]
    """Strategy of all seats for each responding seat; the other seats keep the opponent's.

    It is (N, A), or in games evaluated by walks (L,), as `Solution.strategy`.
    """

    @property
    def mean(self) -> float:
        """Mean of the values over the seats."""
        return sum(self.values) / len(self.values)


class FunctionPolicy(MemorylessPolicy):
    """Policy of your own, from a function.

    `function`: takes R observations and returns the probabilities (R, A) of their actions.
    """

    def __init__(self, function: Callable[[Observations], Array]) -> None:
        self.function = function

    def probs(self, observations: Observations) -> Array:
        """Return the action probabilities (R, A) at R observations.

        Raises UserError if the function returns something else.
        """
        legal, probs = observations.legal, np.asarray(self.function(observations), float)
        if legal is None:
            raise UserError("a policy from a function of probabilities needs discrete actions")
        if probs.shape != legal.shape:
            raise UserError(
                f"the policy's function must return probabilities {legal.shape}, one row for each "
                f"observation, not {probs.shape}"
            )
        if not (probs >= 0).all() or (probs[~legal] > 0).any():  # the first rejects nan, too
            raise UserError(
                "the policy's function must return probabilities of at least 0, and 0 for illegal "
                "actions: use observations.legal"
            )
        return probs


@dataclass(frozen=True)
class LoadedModel:
    """A stored model with its game and the job that trained it."""

    folder: Path
    game: Any
    job: Job
    weights: Mapping[str, Array]

    def policy(self) -> Any:
        """Return the model's policy. Raises UserError if it plays only after adaptation."""
        return model_files.policy(self.folder, self.game)

    def adapt(
        self, opponent: PlayerLike, *, steps: int = 3, games: int = 200, seed: int = 0
    ) -> list[Policy]:
        """Adapt the model to an opponent; return its policies before and after each step.

        `steps`: number of adaptation steps. `games`: games that each step plays against the
        opponent. The policies keep the bound on exploitability of the model's job, if it has one.
        Raises UserError for a model of a trainer that does not adapt.
        """
        if not adapts(self.job.trainer):
            raise UserError(f"a model of trainer {self.job.trainer} does not adapt")
        trainer: Any = TRAINERS[self.job.trainer].trainer
        rng, against = generator(seed, RngStream.EVALUATE), _policy(opponent, self.game)
        return trainer.adapt_model(self.job, self.weights, against, rng, steps, games)

    def evaluate(self) -> list[dict[str, Any]]:
        """Evaluate the model with the settings of its job; return the rows of its results table."""
        return lifecycle.evaluate_stored(str(self.folder), workers=0)[0]


def board(
    player: NewPlayer | NewPolicyPlayer,
    game: str | Mapping[str, Any] = "leduc",
    *,
    told: Told = "own_cards",
    opponents: str = "development",
    budgets: Sequence[int] | None = None,
    seeds: Iterable[int] = range(5),
) -> list[dict[str, Any]]:
    """Evaluate a player of your own on a board; return a row for each budget, as `overtrick board`.

    `player`: a class, or a function, that is called with a `BoardSetting` and a random generator,
    and returns the player of one match. The player needs one method: `strategy(games)`, given all
    finished games of the match, returns the strategy (N, A); or `act(decision)` returns an action,
    or the probabilities (A,) of all actions. With `act`, `observe(game)` is told each finished
    game. `openspiel_player` and `environment_player` make such functions. In a game that is too
    large for a tree, the method is `act`, or `policy(games)`, which returns a policy.

    `game`: a name, or a name and options, such as `{"name": "holdem", "view": "strength"}`.
    `told`: the opponent's cards that it sees after a game. `opponents`: "development", or a folder
    of test opponents. `budgets`: numbers of games after which it is evaluated; None: 50, 200, 600
    and 2,000, in games without a tree up to 600. `seeds`: of the matches with each opponent. Raises
    UserError.
    """
    from overtrick.comparison.board_job import BoardJob  # imports Ray

    content = {
        "trainer": "board", "game": game, "told": [told], "opponents": opponents,
        "seeds": list(seeds), "methods": {"player": {"player": "equilibrium"}},
        **({} if budgets is None else {"budgets": list(budgets)}),
    }  # fmt: skip
    job = job_file.parse(content, {"board": BoardJob}, "board")
    large = bucket_board.uses_abstraction(job.game)
    if budgets is None and large:
        job = job.model_copy(update={"budgets": SAMPLED_BUDGETS})
    kind: Any = bucket_board if large else board_evaluation
    play_match: Any = bucket_match.play_match if large else board_match.play_match
    met = kind.read_opponents(job.game, job.opponents)
    name, results = getattr(player, "__name__", "player"), []
    here = kind.setting(job.game, job.told[0])
    if job.opponents != opponent_files.DEVELOPMENT:
        opponent_files.record_use(Path(job.opponents), f"ot.board {name}")
    for opponent in met:

        def play_one(rng: Generator, opponent: Any = opponent) -> MatchResult:
            """Play one match."""
            result: MatchResult = play_match(here, player, opponent, job.budgets, rng)
            return result

        found = board_evaluation.play_matches(play_one, opponent, job.seeds)
        facts = kind.opponent_facts(job.game, opponent)
        results.append(board_evaluation.opponent_result(name, told, opponent, facts, *found))
    return [row._asdict() for row in board_evaluation.summarise(results)]


def serve_player(player: NewPlayer | NewPolicyPlayer) -> None:
    """Answer the board that has started this program as a player, until the match has ended.

    `player`: as for `board`; in a game that is too large for a tree, it needs the method `act`.
    Answers go to standard output; the output of the player itself goes to standard error.
    """
    from overtrick.evaluation.board import process_player

    answers = sys.stdout
    with redirect_stdout(sys.stderr):
        process_player.serve(player, sys.stdin, answers)


def tree(game: Any, **options: Any) -> Tree:
    """Build the game tree of a game. Raises UserError if the game has none or it is too large."""
    return build(_game(game, options))


def solve(
    game: Any,
    plan: str = "cfr+",
    iterations: int = 1000,
    *,
    seed: int = 0,
    measure_at: Iterable[int] = (),
    temperature: float = TEMPERATURE,
    **options: Any,
) -> Solution:
    """Compute or approximate an equilibrium of a game.

    `plan`: the solver, one of those that `overtrick list` names. `iterations`: each updates all
    seats. `seed`: of solvers that sample. `measure_at`: numbers of iterations after which the
    exploitability is measured, for `Solution.history`. `temperature`: of mmd-qre, in points.
    """
    asked: Any = GameChoice(name=game, options=options) if isinstance(game, str) else None
    asked = asked or _game(game, options)
    return exact_solutions.solve(
        asked, plan, iterations, seed, measure_at=measure_at, temperature=temperature
    )


def best_response(game: Any, opponent: PlayerLike, **options: Any) -> BestResponse:
    """Compute an exact best response to an opponent in each seat.

    Raises UserError for a game that is too large for a tree and is not evaluated by walks.
    """
    made = _game(game, options)
    if isinstance(made, WalkedGame):
        return BestResponse(*best_responses_to(made, [_policy(opponent, made)] * made.seats))
    nodes = build(made)
    sigma = _strategy(opponent, made, nodes)
    found = [exact.best_response(nodes, sigma, seat) for seat in range(nodes.seats)]
    values, strategies = zip(*found, strict=True)
    return BestResponse(values, strategies)


def exploitability(game: Any, player: PlayerLike, **options: Any) -> float:
    """Return the exploitability of a player in points per game: NashConv divided by the seats.

    Raises UserError for a game that is too large for a tree and is not evaluated by walks.
    """
    made = _game(game, options)
    if isinstance(made, WalkedGame):
        return evaluate_players(made, [_policy(player, made)] * made.seats).exploitability
    nodes = build(made)
    return exact.exploitability(nodes, _strategy(player, made, nodes))


def play(
    game: Any, players: Sequence[PlayerLike], games: int = 1000, *, seed: int = 0, **options: Any
) -> Rollout:
    """Play games side by side, player s in seat s; return all decisions and payoffs.

    `Rollout.payoff` is an array (games, seats) of points, `Rollout.batch` the decisions.
    """
    made = _game(game, options)
    registry.check_playable(made)
    if len(players) != made.seats or games < 1:
        raise UserError(f"{made.name} needs {made.seats} players and at least one game")
    policies = [_policy(player, made) for player in players]
    return play_rollout(made, policies, games, generator(seed, RngStream.EVALUATE))


def match(
    game: Any, a: PlayerLike, b: PlayerLike, boards: int = 250, *, seed: int = 0, **options: Any
) -> PairResult:
    """Play a match of two players in a zero-sum game of two seats, each board from both seats.

    `PairResult.mean` is A's mean payoff per game, with its standard error.
    """
    named = isinstance(game, str)
    made = _game(game, registry.match_options(game, options) if named else options)
    registry.check_playable(made)
    registry.check_zero_sum(made)
    if made.seats != 2 or boards < 2:
        raise UserError("a match needs a game of two seats, and at least two boards")
    first, second = _policy(a, made), _policy(b, made)
    return play_duplicate_boards(made, first, second, boards, generator(seed, RngStream.EVALUATE))


def train(
    job: str | Path | Mapping[str, Any],
    *overrides: str,
    name: str | None = None,
    progress: Listener = lambda iteration, metrics: None,
) -> FinishedRun:
    """Train a run in this process and store it in the folder of runs, like `overtrick train`.

    The folder is ./runs, or the environment variable OVERTRICK_RUNS.

    `job`: a job file, the name of a job of the package, or the content of a job as a mapping.
    `overrides`: such as "stop.iterations=4". `name`: begins the name of the run; by default the
    name of the file, or of the trainer.
    `progress`: called with each iteration's number and metrics.
    """
    config, name = _job(job, overrides, name)
    lifecycle.check_job(config)
    return lifecycle.train(lifecycle.open_folder(config, name), progress)


def sweep(
    job: str | Path | Mapping[str, Any],
    *overrides: str,
    name: str | None = None,
    progress: OnProgress = lambda done: None,
) -> FinishedSweep:
    """Train every variant of a job's `search` section, like `overtrick sweep`.

    Arguments as of `train`; `progress` is called with the number of finished iterations of all
    trials. `FinishedSweep.rows` has a row for each trial, the best first.
    """
    from overtrick.sweeps import sweep as sweeps  # imports Tune, which takes a second

    config, name = _job(job, overrides, name)
    sweeps.check(config, name)
    return sweeps.run(lifecycle.open_folder(config, name, children=True), progress)


def load(model: str | Path) -> LoadedModel:
    """Load a stored model: a run, a model folder, champion:NAME, or models:/NAME/VERSION."""
    folder = locate.existing_model(str(model))
    stored = model_files.load(folder)
    job = job_file.parse_stored(stored.job, JOBS, str(folder / model_files.CARD))
    return LoadedModel(folder, make(job.game.name, **job.game.options), job, stored.weights)


def champion(name: str) -> LoadedModel:
    """Load a champion, a player that comes with the package, by its name, such as "leduc".

    `champions()` lists the cards of all champions. Wherever a function takes a player, the name
    "champion:leduc" stands for this one. Raises UserError for an unknown name.
    """
    return load(f"{CHAMPION_PREFIX}{name.removeprefix(CHAMPION_PREFIX)}")


def _job(
    job: str | Path | Mapping[str, Any], overrides: Sequence[str], name: str | None
) -> tuple[Job, str]:
    """Return a validated job and the beginning of its run's name."""
    if name is not None:
        check_folder_name(name, "name")
    if isinstance(job, Mapping):
        config = job_file.parse(apply_overrides(dict(job), overrides), JOBS, "the job")
        return config, name or config.trainer
    return job_file.load(job, overrides, JOBS), name or Path(job).stem


def _game(game: Any, options: Mapping[str, Any]) -> Any:
    """Return a game from its name and options, or the game itself."""
    if isinstance(game, str):
        return make(game, **options)
    if options:
        raise UserError("options are for a game given by its name")
    return game


def _policy(player: PlayerLike, game: Any, nodes: Tree | None = None) -> Any:
    """Return the policy of a player in a game. Raises UserError for an unknown name.

    `nodes`: the tree of the game, if it is built already.
    """
    if isinstance(player, LoadedModel):
        return model_files.policy(player.folder, game)
    if isinstance(player, Solution):
        if player.game.name != game.name:
            raise UserError(f"the strategy is for {player.game.name}, not for {game.name}")
        _check_infosets(player.strategy, game)
        return player.policy()
    if isinstance(player, Array):
        if isinstance(game, WalkedGame):
            return view_policy.of_array(game, player)
        _check_infosets(player, game)
        return TabularPolicy(player)
    if not isinstance(player, (str, Path)):
        if not callable(getattr(player, "start", None)):
            raise UserError(f"not a player: {player!r}: give a name, a strategy (N, A) or a Policy")
        return player
    name = reference_opponents.resolve_opponent(str(player), game)
    if name == "cfr" and nodes is None:
        nodes = build(game)
    return reference_opponents.make_opponent(name, game, nodes)


def _check_infosets(strategy: Array, game: Any) -> None:
    """Raise UserError for a strategy with another number of information sets than the game."""
    if isinstance(game, WalkedGame) or game.infosets is None:
        return
    if len(strategy) != game.infosets:
        raise UserError(
            f"the strategy has {len(strategy)} information sets, and {game.name} with these "
            f"options has {game.infosets}"
        )


def _strategy(player: PlayerLike, game: Any, nodes: Tree) -> Array:
    """Return the strategy (N, A) of a player at the information sets of all seats."""
    return exact.sigma_of(nodes, [_policy(player, game, nodes)] * nodes.seats)

"""The players of a board's methods, and the results of one player against one opponent."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Mapping
from typing import Any

from numpy.random import Generator

from overtrick.comparison.board_job import BoardJob, BoardMethod
from overtrick.comparison.comparison_job import evaluation_game_of
from overtrick.config import job_file
from overtrick.config.job_file import Job
from overtrick.core import Array, UserError
from overtrick.evaluation.board import board_evaluation
from overtrick.evaluation.board.board_setting import ActingPlayer, BoardPlayer, BoardSetting
from overtrick.evaluation.board.end_observations import SETTINGS
from overtrick.evaluation.board.opponent_files import BoardOpponent
from overtrick.evaluation.board.players import FixedPlayer, OraclePlayer, PopulationPosteriorPlayer
from overtrick.evaluation.board.process_player import ProcessPlayer
from overtrick.evaluation.evaluate import HeldOutEvaluation, exact_payoff
from overtrick.evaluation.game_cache import cached_equilibrium
from overtrick.policies.tabular import TabularPolicy
from overtrick.solvers.extensive import best_response
from overtrick.storage import locate, model_files
from overtrick.training.held_out_trainer import HeldOutTrainer
from overtrick.training.registry import JOBS, TRAINERS


def check_method(job: BoardJob, method: BoardMethod) -> None:
    """Raise UserError if a method's model is missing, does not adapt, or is for another game.

    Raises UserError also if a budget has fewer games than the model has steps of adaptation, or if
    a method's program is missing.
    """
    if method.command is not None:
        words = shlex.split(method.command)
        if not words or shutil.which(words[0]) is None:
            raise UserError(f"there is no program `{method.command}`")
    if method.model is None:
        return
    trained, _ = _load_model(job, method.model)
    trainer: Any = TRAINERS[trained.trainer].trainer
    steps = trainer.evaluation_section(trained).steps
    if steps > job.budgets[0]:
        raise UserError(f"budgets: {job.budgets[0]} games are too few for {steps} adaptation steps")


def plays(method: BoardMethod, opponent: BoardOpponent) -> bool:
    """Return whether a method plays against an opponent: a model not if the opponent changes."""
    return method.player != "model" or not opponent.changes


def evaluate_method(
    rng: Generator, job: BoardJob, name: str, told: str, opponent: BoardOpponent
) -> dict[str, Any]:
    """Evaluate a method in one setting against one opponent; return an `OpponentResult`."""
    method = job.methods[name]
    if method.player == "model":
        return _model_result(job, name, told, opponent)
    setting = SETTINGS.get(told, "own_cards")  # an equilibrium or an oracle uses none

    per_game, memory = job.limits.seconds_per_game, job.limits.memory_gib
    seconds = None if per_game is None else per_game * job.budgets[-1]

    def new_player(here: BoardSetting, player_rng: Generator) -> BoardPlayer | ActingPlayer:
        """Return the player of one match."""
        if method.player == "equilibrium":
            return FixedPlayer(cached_equilibrium(job.game))
        if method.player == "oracle":
            return OraclePlayer(here.tree, opponent, method.exploitability_bound)
        if method.command is not None:
            return ProcessPlayer(method.command, job.game, here, player_rng, seconds, memory)
        prior = board_evaluation.population_prior(
            job.game, here.told, method.population_size, method.population_seed
        )
        return PopulationPosteriorPlayer(prior, player_rng, method.exploitability_bound)

    matches, seconds = board_evaluation.play_matches(
        job.game, setting, new_player, opponent, job.budgets, job.seeds, per_game
    )
    return board_evaluation.opponent_result(name, told, job.game, opponent, matches, seconds)


def _model_result(job: BoardJob, name: str, told: str, opponent: BoardOpponent) -> dict[str, Any]:
    """Evaluate a stored model: adapt it from scratch for each budget, as its trainer does.

    The games of a budget are divided among the steps of the model's job, in random seats; a
    remainder is not played. The opponent must not change.
    """
    model, tree = job.methods[name].model, board_evaluation.setting(job.game, "own_cards").tree
    assert model is not None
    trained, weights = _load_model(job, model)
    trainer: Any = TRAINERS[trained.trainer].trainer
    section: HeldOutEvaluation = trainer.evaluation_section(trained)
    met = TabularPolicy(opponent.phases[-1])
    matches = []
    for seed in job.seeds:
        rngs = board_evaluation.match_generator(opponent, seed).spawn(len(job.budgets))
        records = []
        for games, rng in zip(job.budgets, rngs, strict=True):
            adapted = trainer.adapt_model(trained, weights, met, rng, games=games // section.steps)
            strategy = best_response.sigma_of(tree, [adapted[-1]] * 2)
            records.append(
                {
                    "games": games,
                    "payoff": exact_payoff(tree, strategy, opponent.phases[-1]),
                    "exploitability": best_response.exploitability(tree, strategy),
                    "online": None,
                }
            )
        matches.append({"seed": seed, "checkpoints": records})
    return board_evaluation.opponent_result(name, told, job.game, opponent, matches, None)


def _load_model(job: BoardJob, name: str) -> tuple[Job, Mapping[str, Array]]:
    """Return the job and the weights of a stored model.

    Raises UserError if it is missing, is for another game, or cannot adapt to an opponent.
    """
    folder = locate.model_folder(name)
    model = model_files.load(folder, job.game.name)
    trained = job_file.parse_stored(model.job, JOBS, str(folder / model_files.CARD))
    trainer: Any = TRAINERS[trained.trainer].trainer
    if not issubclass(trainer, HeldOutTrainer):
        raise UserError(f"model {name}: trainer {trained.trainer} cannot adapt it to an opponent")
    if evaluation_game_of(trained.game) != evaluation_game_of(job.game):
        raise UserError(f"model {name} plays {job.game.name} with other options")
    return trained, model.weights

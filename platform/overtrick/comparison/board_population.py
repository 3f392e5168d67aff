"""Populations of the players of boards that estimate their opponent by Bayes' rule."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from overtrick.comparison.board_job import BoardMethod
from overtrick.config.job_file import GameChoice
from overtrick.evaluation.board import board_evaluation
from overtrick.evaluation.board.end_observations import Told
from overtrick.evaluation.board.players import PosteriorPlayerFactory
from overtrick.training.adaptation.training_opponents import TrainingOpponents, read_members


def posterior_players(
    choice: GameChoice, told: Told, method: BoardMethod
) -> PosteriorPlayerFactory:
    """Return the factory of a method's players; each process makes their population once.

    Raises UserError if a stored run of the method is missing, damaged or of another game.
    """
    section = TrainingOpponents(
        size=method.population_size,
        seed=method.population_seed,
        psro=method.psro,
        league=method.league,
    )
    return _players(choice.model_dump_json(), told, section.model_dump_json())


@lru_cache(maxsize=8)
def _players(choice: str, told: Told, section: str) -> PosteriorPlayerFactory:
    game = GameChoice.model_validate_json(choice)
    members = read_members(game, TrainingOpponents.model_validate_json(section))
    here = board_evaluation.setting(game, told)
    return PosteriorPlayerFactory.of_members(here, np.concatenate(members))

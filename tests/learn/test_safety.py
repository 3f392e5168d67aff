"""How much can be won by how little can be lost: exact laws on small games."""

from __future__ import annotations

import numpy as np
import pytest

from overtrick import config
from overtrick.core import Refused
from overtrick.games.poker.scripted import Caller
from overtrick.solvers import safety, sequence_form, value
from overtrick.solvers.walk import plan
from overtrick.trainers import JOBS, TRAINERS
from overtrick.trainers.evaluate import best_response_payoff, exact_payoff
from overtrick.workers import LocalCrew

GAMES = ["kuhn", "leduc"]

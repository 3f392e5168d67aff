"""The nouns that flow between the rooms, and the letters that their shapes are written in.

G games side by side, S seats, R rows that must act now, K facts, A actions (or the width of a real
vector), D decisions, N information sets, C chance outcomes of one game, M members of a population,
F features. In poker B betting nodes; in the solvers V nodes of a tree, I inner ones, L legal
actions of all information sets in a row; in a network H units of a layer; in Chains K buckets.
"""

from overtrick.core.batches import Actions as Actions
from overtrick.core.batches import Array as Array
from overtrick.core.batches import Deals as Deals
from overtrick.core.batches import Observations as Observations
from overtrick.core.batches import Rollout as Rollout
from overtrick.core.batches import Trajectories as Trajectories
from overtrick.core.batches import concatenate_trajectories as concatenate_trajectories
from overtrick.core.batches import select_observations as select_observations
from overtrick.core.errors import RunError as RunError
from overtrick.core.errors import UserError as UserError
from overtrick.core.errors import nearest as nearest
from overtrick.core.games import AbstractStates as AbstractStates
from overtrick.core.games import BoundedPayoff as BoundedPayoff
from overtrick.core.games import CompactFeatures as CompactFeatures
from overtrick.core.games import CountsDivergedGames as CountsDivergedGames
from overtrick.core.games import DeclaresZeroSum as DeclaresZeroSum
from overtrick.core.games import Enumerable as Enumerable
from overtrick.core.games import EvaluatedOnAnother as EvaluatedOnAnother
from overtrick.core.games import Game as Game
from overtrick.core.games import InformationStateStrings as InformationStateStrings
from overtrick.core.games import PortableOptions as PortableOptions
from overtrick.core.games import PrivilegedFeatures as PrivilegedFeatures
from overtrick.core.games import PublicSituations as PublicSituations
from overtrick.core.games import Redealable as Redealable
from overtrick.core.games import Resumable as Resumable
from overtrick.core.games import State as State
from overtrick.core.games import StateT as StateT
from overtrick.core.games import SuitSymmetric as SuitSymmetric
from overtrick.core.games import ValidatesObservations as ValidatesObservations
from overtrick.core.games import count_diverged_games as count_diverged_games
from overtrick.core.games import is_zero_sum as is_zero_sum
from overtrick.core.games import select_games as select_games
from overtrick.core.policies import BehaviouralPolicy as BehaviouralPolicy
from overtrick.core.policies import Policy as Policy
from overtrick.core.policies import PolicySession as PolicySession
from overtrick.core.training import Learner as Learner
from overtrick.core.training import Trainer as Trainer
from overtrick.core.trees import CHANCE as CHANCE
from overtrick.core.trees import END as END
from overtrick.core.trees import BucketedGame as BucketedGame
from overtrick.core.trees import ExplicitTreeGame as ExplicitTreeGame
from overtrick.core.trees import TreeNodes as TreeNodes

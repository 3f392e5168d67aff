"""The nouns that flow between the rooms, and the letters that their shapes are written in.

G games side by side, S seats, R rows that must act now, K facts, A actions (or the width of a real
vector), D decisions, N information sets, C chance outcomes of one game, M members of a population,
F features. In poker B betting nodes; in the solvers V nodes of a tree, I inner ones, L legal
actions of all information sets in a row; in a network H units of a layer; in Chains K buckets.
"""

from overtrick.core.batches import Array as Array
from overtrick.core.batches import Batch as Batch
from overtrick.core.batches import Choice as Choice
from overtrick.core.batches import Deals as Deals
from overtrick.core.batches import Played as Played
from overtrick.core.batches import Turn as Turn
from overtrick.core.batches import join as join
from overtrick.core.batches import take_turn as take_turn
from overtrick.core.errors import Failed as Failed
from overtrick.core.errors import Refused as Refused
from overtrick.core.errors import nearest as nearest
from overtrick.core.games import Enumerable as Enumerable
from overtrick.core.games import Game as Game
from overtrick.core.games import Redealable as Redealable
from overtrick.core.games import State as State
from overtrick.core.games import StateT as StateT
from overtrick.core.games import take as take
from overtrick.core.policies import Mixed as Mixed
from overtrick.core.policies import Player as Player
from overtrick.core.policies import Policy as Policy
from overtrick.core.training import Learner as Learner
from overtrick.core.training import Trainer as Trainer
from overtrick.core.trees import CHANCE as CHANCE
from overtrick.core.trees import END as END
from overtrick.core.trees import Chains as Chains
from overtrick.core.trees import Nodes as Nodes
from overtrick.core.trees import Unfolded as Unfolded

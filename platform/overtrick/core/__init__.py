"""The data types and interfaces that all other folders share.

Letters in the shapes of arrays:

- G games played side by side, S seats, R rows (decisions that must be made now)
- K observation fields, A actions (or the width of a vector of real numbers), F features
- D recorded decisions, N information sets, C columns of a deal, M members of a population
- in poker: B nodes of the betting tree
- in the solvers: V nodes of a game tree (I of them inner nodes), L legal actions, counted over all
  information sets
- in a network: H units of a layer
- in a BucketedGame: K buckets
"""

from overtrick.core.batches import *
from overtrick.core.errors import *
from overtrick.core.game_trees import *
from overtrick.core.games import *
from overtrick.core.policies import *
from overtrick.core.training import *

"""Adapters of this project's games: Gymnasium and PettingZoo environments, and OpenSpiel games.

Importing this package registers the games in Gymnasium: `gymnasium.make("overtrick/leduc-v0")`, and
`gymnasium.make_vec` for many games in one batch.
"""

from overtrick.environments.registration import register_environments

register_environments()

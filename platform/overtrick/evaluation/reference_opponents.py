"""Look up reference opponents: fixed players by name, stored models by champion, run or folder."""

from __future__ import annotations

from typing import Any

from overtrick.core import Enumerable, ExplicitTreeGame, Game, UserError, suggestion
from overtrick.games import registry
from overtrick.policies.tabular import TabularPolicy
from overtrick.policies.uniform import UniformPolicy, UniformVectorPolicy
from overtrick.solvers import cfr
from overtrick.solvers.extensive import best_response
from overtrick.solvers.extensive.tree import Tree
from overtrick.storage import locate, model_files
from overtrick.storage.bucket_copy import path_or_url
from overtrick.storage.champions import is_champion

CFR_ITERATIONS = 10_000  # of opponent `cfr`


def opponent_names(game: Game) -> list[str]:
    """List the names of a game's reference opponents, including `cfr` if the game has a tree."""
    solved = ["cfr"] if isinstance(game, (Enumerable, ExplicitTreeGame)) else []
    return ["random", *registry.scripted_players(game), *solved]


def check_opponent(name: str, game: Game, tree: Tree | None) -> None:
    """Raise UserError if an opponent is unknown, its files are missing, or its model is invalid.

    `tree`: the tree of the game, None if it has none. With a tree, a model's action probabilities
    are checked at every information set.
    """
    if _is_model(name):
        policy = model_files.policy(locate.model_folder(name), game)
        if tree is not None:
            best_response.check_policy(tree, policy, f"the model in {name}")
    elif name not in opponent_names(game):
        here = resolve_opponent(name, game)
        known = [*opponent_names(game), *locate.run_names()]
        hint = f"did you mean '{here}'?" if _is_model(here) else suggestion(name, known)
        raise UserError(f"unknown opponent '{name}' in {game.name}: {hint}")
    elif game.actions is None and name in (scripted := registry.scripted_players(game)):
        scripted[name](game)  # raises UserError if files are missing


def make_opponent(name: str, game: Game, tree: Tree | None) -> Any:
    """Make the policy of an opponent: a reference opponent or a champion, or a model by folder.

    `random` acts uniformly over legal actions. `cfr` follows the average strategy of 10,000
    iterations of CFR+. Other names are scripted players of the game. The result is a
    BehaviouralPolicy if actions are discrete. `tree`: the tree of the game, None if it has none.
    Raises UserError as `check_opponent` does.
    """
    check_opponent(name, game, tree)
    if _is_model(name):
        return model_files.policy(locate.model_folder(name), game)
    if name == "random":
        if game.actions is None:
            return UniformVectorPolicy(len(game.action_names))
        return UniformPolicy()
    if name == "cfr":
        assert tree is not None
        return TabularPolicy(cfr.solve(tree, CFR_ITERATIONS))
    return registry.scripted_players(game)[name](game)


def resolve_opponent(name: str, game: Game) -> str:
    """Return the path or URL of an opponent's stored model, or the name of a reference opponent.

    `name`: a registered model, a run, the folder of a model, a champion, or a reference opponent.
    The last two and any other name are returned unchanged. Raises UserError for an unknown
    registered model, and for a run that is not done or that has only child runs.
    """
    if name in opponent_names(game) or is_champion(name):
        return name
    folder = locate.model_folder(name)
    return path_or_url(folder.absolute()) if model_files.is_model(folder) else name


def _is_model(name: str) -> bool:
    return "/" in name or is_champion(name)

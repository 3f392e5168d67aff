"""The opponents that no training run may see, by name."""

from __future__ import annotations

from typing import Any

from overtrick.core import Enumerable, ExplicitTreeGame, Game, UserError, nearest
from overtrick.games import registry
from overtrick.policies.tabular import TabularPolicy
from overtrick.policies.uniform import UniformPolicy, UniformVectorPolicy
from overtrick.solvers import cfr
from overtrick.solvers.extensive import best_response
from overtrick.solvers.extensive.tree import Tree
from overtrick.storage import locate, model_files

CFR_ITERATIONS = 10_000


def opponent_names(game: Game) -> list[str]:
    """The strangers that a game knows; cfr needs a tree."""
    solved = ["cfr"] if isinstance(game, (Enumerable, ExplicitTreeGame)) else []
    return ["random", *registry.scripted_players(game), *solved]


def check_opponent(name: str, game: Game, tree: Tree | None) -> None:
    """Raise UserError if there is no such opponent, its files are missing, or a model's
    probabilities are none."""
    if _is_model(name):
        policy = model_files.policy(locate.model_folder(name), game)
        if tree is not None:
            best_response.check_policy(tree, policy, f"the model in {name}")
    elif name not in opponent_names(game):
        here = resolve_opponent(name, game)
        near = (
            here if _is_model(here) else nearest(name, [*opponent_names(game), *locate.run_names()])
        )
        raise UserError(f"unknown opponent '{name}' in {game.name}: did you mean '{near}'?")
    elif game.actions is None and name in (known := registry.scripted_players(game)):
        known[name](game)  # it may need files


def make_opponent(name: str, game: Game, tree: Tree | None) -> Any:
    """An opponent by its name, or a model by its folder or its run's: Mixed unless actions are
    real vectors. Raises UserError.

    tree: None if the game has none. random: uniform over what may be done; cfr: average strategy of
    10,000 iterations of CFR+; the rest are the game's scripted players.
    """
    check_opponent(name, game, tree)
    if _is_model(name):
        return model_files.policy(locate.model_folder(name), game)
    if name == "random":
        return (
            UniformPolicy()
            if game.actions is not None
            else UniformVectorPolicy(len(game.action_names))
        )
    if name == "cfr":
        assert tree is not None
        return TabularPolicy(cfr.solve(tree, CFR_ITERATIONS))
    return registry.scripted_players(game)[name](game)


def resolve_opponent(name: str, game: Game) -> str:
    """The name; if it is no stranger but a model, the model's folder, as `registry.located` finds
    it. Raises UserError as that."""
    if name in opponent_names(game):
        return name
    folder = locate.model_folder(name)
    return str(folder.absolute()) if (folder / model_files.CARD).is_file() else name


def _is_model(name: str) -> bool:
    return "/" in name

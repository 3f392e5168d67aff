"""A model on disk: weights (safetensors) and what they are for (JSON). Loading runs no code."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file

from overtrick.core import Array, BehaviouralPolicy, Game, SuitSymmetric, UserError
from overtrick.core.files import replacing_folder, write_text, write_weights
from overtrick.learners.state_keys import unprefixed
from overtrick.learners.value_based.dqn import GreedyPolicy
from overtrick.learners.value_based.tabular import GreedyTable
from overtrick.policies.by_seat import PolicyBySeat
from overtrick.policies.forward_pass import LOG_STD, Weights
from overtrick.policies.network import network_policy
from overtrick.policies.network_sizes import input_size, output_size
from overtrick.policies.tabular import TabularPolicy
from overtrick.policies.uniform import UniformPolicy
from overtrick.storage.old_names import translate_job

FORMAT = 1
GREEDY = "greedy"  # the network of one who takes the action of the highest value
SEAT = "seat_{}"  # under which a model has the network of one seat, if each has its own
TABLE = ".choice"  # what a table of values has, after the name of its player
WEIGHTS, CARD = "weights.safetensors", "model.json"


@dataclass(frozen=True)
class Model:
    """What training leaves behind."""

    weights: dict[str, Array]  # policy.w0, ..., critic.w0, ...; seat_0.policy.w0, ...; sigma (N, A)
    game: str
    job: dict[str, Any]  # what `config.parse` reads back as the job
    result: dict[str, Any] = field(default_factory=dict)  # what is known of it, if anything is


def check_place(folder: Path) -> None:
    """Raise UserError unless somebody's model can be written there; it may replace an earlier one,
    but not that of a run."""
    if os.path.lexists(folder):
        names = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
        if names != {WEIGHTS, CARD} or (folder.parent / "job.json").exists():
            raise UserError(
                f"{folder} exists and is not a model alone: name another place, or remove it"
            )
    above = next(path for path in folder.absolute().parents if os.path.exists(path))
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        raise UserError(f"no model can be kept in {folder}: {above} cannot be written")


def save(model: Model, folder: Path) -> None:
    """Write a model in place of an earlier one; it appears whole or not at all."""
    with replacing_folder(folder) as new:
        write_weights(new / WEIGHTS, dict(sorted(model.weights.items())))
        card = {"format": FORMAT, "game": model.game, "job": model.job}
        if model.result:
            card["result"] = model.result
        write_text(new / CARD, json.dumps(card, indent=1, sort_keys=True) + "\n")


def load(folder: Path, game: str | None = None) -> Model:
    """Read a model, for a certain game if one is named. Raises UserError with the remedy."""
    card_path, weights_path = folder / CARD, folder / WEIGHTS
    try:
        card = json.loads(card_path.read_text(encoding="utf-8"))
        weights = load_file(weights_path)
    except OSError as error:
        name = error.filename or folder
        raise UserError(f"no model in {folder}: cannot read {name} ({error.strerror})") from None
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise UserError(f"{card_path} is damaged: it is not JSON; restore it") from None
    except SafetensorError as error:
        raise UserError(
            f"{weights_path} is truncated or damaged ({error}); train again or restore it"
        ) from None
    known = card if isinstance(card, dict) else {}
    if known.get("format") != FORMAT:
        found = known.get("format")
        raise UserError(f"{card_path} has format {found}; this version reads {FORMAT}")
    if not isinstance(known.get("game"), str) or not isinstance(known.get("job"), dict):
        raise UserError(f"{card_path} is damaged: it names no game or job; restore it")
    if game is not None and card["game"] != game:
        raise UserError(f"the model in {folder} plays {card['game']}, not {game}")
    return Model(weights, card["game"], translate_job(card["job"]), card.get("result", {}))


def plays(weights: Mapping[str, Array]) -> bool:
    """Is there a policy in it, that plays without anything more?"""
    tables = any(name.endswith(TABLE) for name in weights)
    networks = unprefixed("policy", weights) or unprefixed(GREEDY, weights)
    seats = unprefixed(SEAT.format(0), weights)
    return "sigma" in weights or tables or bool(networks) or bool(seats and plays(seats))


def policy(folder: Path, game: Any) -> Any:
    """The policy of a stored model, for a game that it fits: Mixed, unless moves are real vectors.
    Raises UserError."""
    stored = load(folder, game.name)
    weights = stored.weights
    if not plays(weights):
        raise UserError(
            f"the model in {folder} is no player by itself: it has to search, or to watch its "
            "opponent first"
        )
    if "sigma" in weights:
        return _tabular(weights["sigma"], folder, game)
    if players := [n.removesuffix(TABLE) for n in weights if n.endswith(TABLE)]:
        return _tables({who: unprefixed(who, weights) for who in players}, stored, folder, game)
    if unprefixed(SEAT.format(0), weights):
        seats = [unprefixed(SEAT.format(k), weights) for k in range(game.seats)]
        return PolicyBySeat([_alone(each, folder, game) for each in seats])
    return _alone(weights, folder, game)


def _alone(weights: dict[str, Array], folder: Path, game: Any) -> Any:
    """The policy of one network."""
    if greedy := unprefixed(GREEDY, weights):
        _network(greedy, folder, game)  # refuses another shape
        return best_of(greedy, game)
    return _network(unprefixed("policy", weights), folder, game)


def best_of(weights: Weights, game: Game) -> BehaviouralPolicy:
    """Who takes the action of the highest value; networks of values see suits renamed, if a game
    has such."""
    policy: BehaviouralPolicy = GreedyPolicy(game.features, weights)
    return game.canonical_policy(policy) if isinstance(game, SuitSymmetric) else policy


def _tables(
    players: Mapping[str, Mapping[str, Array]], stored: Model, folder: Path, game: Any
) -> BehaviouralPolicy:
    """Tables of values, each of which plays greedily for one of the players of a game."""
    try:
        states = game.state_keys(stored.job["tabular"]["state_abstraction"])
    except (KeyError, TypeError, AttributeError):
        raise UserError(f"{folder / CARD} is damaged: it names no representation") from None
    for who, columns in players.items():
        pairs = (("choice", "value"), ("choice", "count"), ("state", "actions"))
        fits = all(
            {k, n} <= columns.keys() and columns[n].shape == columns[k].shape for k, n in pairs
        )
        # a look-up ends at a free place, and goes round a power of two
        if not fits or any(not _has_room(columns[key]) for key in ("choice", "state")):
            raise UserError(f"the table of {who} in {folder} is damaged: its columns do not fit")
    greedy = {who: GreedyTable(states, columns) for who, columns in players.items()}
    return game.combined_policy(greedy, UniformPolicy())


def _has_room(keys: Array) -> bool:
    return len(keys) > 0 and len(keys) & (len(keys) - 1) == 0 and bool((keys == 0).any())


def _tabular(sigma: Array, folder: Path, game: Any) -> TabularPolicy:
    sets = getattr(game, "infosets", None)  # a game that lays out its own tree counts them there
    if sigma.ndim != 2 or sigma.shape != (sets or len(sigma), game.actions):
        raise UserError(
            f"the strategy in {folder} is {sigma.shape}, but {game.name} has {sets} information "
            f"sets and {game.actions} actions: was it solved with other options?"
        )
    sums = sigma.sum(axis=1)
    wrong = np.flatnonzero(~(np.abs(sums - 1) < 1e-6) | (sigma < 0).any(axis=1))
    if len(wrong):
        raise UserError(
            f"the strategy in {folder} is damaged: row {wrong[0]} must be probabilities with sum "
            f"1, but sums to {sums[wrong[0]]:.6g}; solve again or restore it"
        )
    return TabularPolicy(sigma)


def _network(weights: dict[str, Array], folder: Path, game: Any) -> Any:
    if not isinstance(game, Game):
        raise UserError(f"the model in {folder} is a network, which cannot see {game.name}")
    moves = {LOG_STD: weights[LOG_STD]} if LOG_STD in weights else {}
    if bool(moves) != (game.actions is None):
        raise UserError(f"the model in {folder} is damaged: it has other layers than w0, b0, ...")
    rest = {name: value for name, value in weights.items() if name != LOG_STD}
    check_layers(
        rest, input_size(game), output_size(game), f"the model in {folder}", game.name, moves
    )
    if moves and weights[LOG_STD].shape != (output_size(game),):
        raise UserError(f"the model in {folder} is damaged: log_std is {weights[LOG_STD].shape}")
    return network_policy(game.features, weights)


def check_layers(
    weights: Mapping[str, Array], seen: int, said: int, what: str, of: str,
    more: Mapping[str, Array] | None = None,
) -> None:  # fmt: skip
    """Raise UserError, saying what is wrong and of what it should be, unless weights are finite
    layers from so many inputs to so many answers; more: weights that are no layers."""
    layers = len(weights) // 2
    names = {f"{kind}{k}" for kind in "wb" for k in range(layers)}
    if not layers or weights.keys() != names or weights["w0"].ndim != 2:
        raise UserError(f"{what} is damaged: it has other layers than w0, b0, ...")
    wide = [seen, *(len(weights[f"b{k}"]) for k in range(layers - 1)), said]
    for k in range(layers):
        shapes = weights[f"w{k}"].shape, weights[f"b{k}"].shape
        if shapes != ((wide[k], wide[k + 1]), (wide[k + 1],)):
            raise UserError(
                f"{what} has other inputs or actions than {of}, or layers that do not fit: w{k} "
                f"and b{k} are {shapes[0]} and {shapes[1]}"
            )
    for value in (*weights.values(), *(more or {}).values()):
        if value.dtype != np.float32 or not np.isfinite(value).all():
            raise UserError(f"{what} is damaged: its weights must be finite float32")

"""A model on disk: weights (safetensors) and what they are for (JSON). Loading runs no code."""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from overtrick.core import Array, Game, Refused
from overtrick.learners.networks import unprefixed
from overtrick.policies import Network

FORMAT = 1
WEIGHTS, CARD = "weights.safetensors", "model.json"


@dataclass(frozen=True)
class Model:
    """What training leaves behind."""

    weights: dict[str, Array]  # by name: policy.w0, ..., critic.w0, ...
    game: str
    job: dict[str, Any]  # the whole job, defaults filled in


def save(model: Model, folder: Path) -> None:
    """Write a model; it appears in place whole or not at all."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as beside:
        new = Path(beside) / "new"
        new.mkdir()
        save_file(dict(sorted(model.weights.items())), new / WEIGHTS)
        card = {"format": FORMAT, "game": model.game, "job": model.job}
        (new / CARD).write_text(json.dumps(card, indent=1, sort_keys=True) + "\n")
        if folder.exists():
            folder.rename(Path(beside) / "old")
        new.rename(folder)


def load(folder: Path, game: str | None = None) -> Model:
    """Read a model, for a certain game if one is named. Raises Refused with the remedy."""
    card_path, weights_path = folder / CARD, folder / WEIGHTS
    try:
        card = json.loads(card_path.read_text(encoding="utf-8"))
        weights = load_file(weights_path)
    except OSError as error:
        name = error.filename or folder
        raise Refused(f"no model in {folder}: cannot read {name} ({error.strerror})") from None
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise Refused(f"{card_path} is damaged: it is not JSON; restore it") from None
    except SafetensorError as error:
        raise Refused(
            f"{weights_path} is truncated or damaged ({error}); train again or restore it"
        ) from None
    known = card if isinstance(card, dict) else {}
    if known.get("format") != FORMAT:
        found = known.get("format")
        raise Refused(f"{card_path} has format {found}; this version reads {FORMAT}")
    if not {"game", "job"} <= known.keys():
        raise Refused(f"{card_path} is damaged: it names no game or job; restore it")
    if game is not None and card["game"] != game:
        raise Refused(f"the model in {folder} plays {card['game']}, not {game}")
    return Model(weights, card["game"], card["job"])


def network(folder: Path, game: Game) -> Network:
    """The policy of a stored model, for a game that it fits. Raises Refused."""
    weights = unprefixed("policy", load(folder, game.name).weights)
    inputs = game.features(game.turn(game.start(game.deal(1, np.random.default_rng(0))))).shape[1]
    layers = [weights.get(f"w{k}") for k in range(len(weights) // 2)]
    wide = [w.shape for w in layers if w is not None]
    if len(wide) != len(layers) or not wide or (inputs, game.actions) != (wide[0][0], wide[-1][1]):
        raise Refused(f"the model in {folder} has other inputs or actions than {game.name}")
    return Network(game.features, weights)

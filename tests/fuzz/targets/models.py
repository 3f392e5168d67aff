"""Fuzz targets: folders of models, used as served models, players and bidders; model names."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from tests.fuzz.inputs import Files
from tests.fuzz.target import Target
from tests.fuzz.targets import shared_inputs

from overtrick.core import UserError
from overtrick.core.files import local_path
from overtrick.evaluation import bidders
from overtrick.games.bridge import auction_rules
from overtrick.policies.rollout import play
from overtrick.serving import predictor
from overtrick.storage import locate, model_files
from overtrick.studies import match
from overtrick.tracking import model_versions, server_address

SERVED = ("meta", "nfsp", "solve", "exploit", "dqn", "bidding_imps", "evolve", "tabular")
PLAYERS = ("meta", "nfsp", "solve", "exploit", "dqn", "tabular", "rllib")


def served_models() -> list[Files]:
    """Return folders of models and observations for them."""
    found = []
    for name in SERVED:
        files = shared_inputs.model_folder(name)
        with TemporaryDirectory() as folder:
            for path, content in files.items():
                file = Path(folder) / path
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(content)
            asked = predictor.Predictor(Path(folder) / "model").example()
        found.append({**files, "asked.json": json.dumps(asked.tolist()).encode()})
    return found


def ask_model(folder: Path) -> None:
    """Load a model, describe it for MLflow, and send it untrusted observations."""
    served = predictor.Predictor(folder / "model")
    predictor.mlflow_description(folder / "model")
    try:
        asked = np.array(json.loads((folder / "asked.json").read_text()))
    except (ValueError, OSError, RecursionError, OverflowError):
        asked = served.example()
    if asked.ndim != 2 or asked.shape[1] != len(served.observation_fields):
        return  # MLflow's schema has the columns
    if asked.dtype.kind not in "iuf":
        return  # and their type
    served.predict(asked)


def players() -> list[Files]:
    """Return folders of models that can play."""
    return [shared_inputs.model_folder(name) for name in PLAYERS]


def play_model(folder: Path) -> None:
    """Let a model play a few games against itself, as `match` does."""
    choice = match.choose_game(str(folder / "model"), "random", None, {})
    policy = match.load_player(str(folder / "model"), choice)
    game, _ = match.two_seat_game(choice)
    play(game, (policy, policy), 2, np.random.default_rng(0), recorded=())


def bidding_models() -> list[Files]:
    """Return folders of bidding models with a hand and an auction."""
    asked = {"hand.txt": b"AQ42.K5.QT93.K76", "auction.txt": b"1N P"}
    return [{**shared_inputs.model_folder(name), **asked} for name in ("bidding", "bidder")]


def suggest(folder: Path) -> None:
    """Rank the calls of a bidding model as `bridge suggest` does."""
    hand, auction = (
        (folder / name).read_text(errors="surrogateescape") if (folder / name).exists() else ""
        for name in ("hand.txt", "auction.txt")
    )
    calls = auction_rules.parse_calls(auction)
    if calls:
        auction_rules.check_auction(calls, done=False)
    side = bidders.load_side(str(locate.existing_model(str(folder / "model"))))
    bidders.rank_calls(side, bidders.load_side("natural"), calls, hand, 0, 0)


def names_of_models() -> list[Files]:
    """Return names of models, runs, players and tracking stores."""
    names = ("models:/x/1", "models:/a b@best", "runs/r", "r", "cfr", "natural", "./model",
             "random", "sqlite:///m.db", "http://localhost:5000", "x.bidding")  # fmt: skip
    return [{"name.txt": name.encode()} for name in names]


def look_up_name(folder: Path) -> None:
    """Look a name up as a run, a model, a player and a server, as the commands do."""
    name = (folder / "name.txt").read_text(errors="surrogateescape").replace("\0", "")
    for find in (
        locate.find_run,
        locate.model_folder,
        locate.absolute_if_path,
        lambda each: match.check_players([each], []),
        model_versions.parse,
        lambda each: model_versions.check_names(each, each),
        lambda each: server_address.validated(each, "MLFLOW_TRACKING_URI"),
        locate.existing_model,
        locate.existing_run,
        bidders.load_side,
        lambda each: model_files.check_place(local_path(each, "--save")),
    ):
        try:
            find(name)
        except UserError as error:
            if len(str(error).splitlines()) != 1:
                raise


TARGETS = (
    Target("served model", served_models, ask_model, 3),
    Target("model plays", players, play_model, 3),
    Target("model bids", bidding_models, suggest, 3),
    Target("names", names_of_models, look_up_name, 6),
)

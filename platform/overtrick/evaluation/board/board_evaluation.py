"""Evaluate a player by matches with the opponents of a board, and summarise its results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from pydantic import TypeAdapter

from overtrick.config.job_file import GameChoice
from overtrick.core import PublicActionGame, UserError
from overtrick.core.json_files import ClosedRecord
from overtrick.distributed.workers import RngStream, generator
from overtrick.evaluation.board import opponent_files
from overtrick.evaluation.board.board_match import MatchResult
from overtrick.evaluation.board.board_setting import BoardSetting
from overtrick.evaluation.board.bucket_opponents import BucketOpponent
from overtrick.evaluation.board.end_observations import Told
from overtrick.evaluation.board.opponent_families import OpponentFamilies
from overtrick.evaluation.board.opponent_files import CHANGES_AFTER, BoardOpponent
from overtrick.evaluation.evaluate import best_response_payoff, exact_payoff
from overtrick.evaluation.game_cache import cached_equilibrium, game_with_tree
from overtrick.evaluation.standard_error import standard_error
from overtrick.solvers.sequence_form import check_two_player_zero_sum

EXPLOITABLE = 0.3
"""Payoff of the best response, in points per game, from which an opponent counts in mean shares."""

TOLERANCE = 1e-6  # of this payoff


class CheckpointRecord(ClosedRecord):
    """Results of a match after a number of games; see `board_match.Checkpoint`."""

    games: int
    payoff: float | None  # None: the opponent changes
    exploitability: float | None  # None: the game has no tree
    online: float | None  # None: the player did not play a match


class MatchRecord(ClosedRecord):
    """Results of one match."""

    seed: int
    checkpoints: list[CheckpointRecord]


class OpponentResult(ClosedRecord):
    """Results of a player in one setting against one opponent; payoffs are points per game."""

    method: str
    told: str
    opponent: str
    opponent_sha256: str
    family: str
    in_training: bool  # populations for training are drawn from this family, too
    best_response_payoffs: list[float]  # against each strategy of the opponent
    equilibrium_payoff: float | None  # of an equilibrium, against its last strategy
    matches: list[MatchRecord]
    seconds_per_game: float | None


OPPONENT_RESULT: TypeAdapter[Any] = TypeAdapter(OpponentResult)


class BoardRow(NamedTuple):
    """Results of one method in one setting after one number of games, over all opponents.

    A share is the payoff divided by that of the best response. Mean shares are over the exploitable
    opponents.
    """

    method: str
    told: str
    budget: int  # games played so far in each match
    share: float | None  # of the strategy then; opponents that change do not count
    standard_error: float | None  # of `share`, over the opponents
    opponents: int  # that count in `share`
    lowest_share: float | None  # of an opponent
    share_beyond_equilibrium: float | None  # (payoff - equilibrium's) / (best - equilibrium's)
    share_of_other_families: float | None  # of opponents whose family is not one for training
    online_share: float | None  # of the games played; opponents that change count
    online_standard_error: float | None  # of `online_share`, over the opponents
    exploitability: float | None  # of the strategy then: mean over all opponents and seeds
    worst_exploitability: float | None


class FamilyRow(NamedTuple):
    """Results of one method in one setting after one number of games, over a family's opponents."""

    family: str
    in_training: bool  # populations for training are drawn from this family, too
    method: str
    told: str
    budget: int  # games played so far in each match
    opponents: int  # of the family, without those that change
    payoff: float  # in points per game; exact, if the game has a tree
    best_response_payoff: float
    share: float | None  # mean over the exploitable opponents; None: there are none


def setting(choice: GameChoice, told: Told) -> BoardSetting:
    """Return a setting of a board; each process makes it once.

    Raises UserError unless the game has a tree, two seats, payoffs that sum to zero, public actions
    and dealt cards.
    """
    return _setting(choice.model_dump_json(), told)


@lru_cache(maxsize=8)
def _setting(choice: str, told: Told) -> BoardSetting:
    game, tree = game_with_tree(GameChoice.model_validate_json(choice))
    if not isinstance(game, PublicActionGame):
        raise UserError(
            f"a board needs a game with public actions and dealt cards, such as leduc: {game.name} "
            "is none"
        )
    check_two_player_zero_sum(tree, "board")
    return BoardSetting(game, tree, told)


def families(choice: GameChoice) -> OpponentFamilies:
    """Return the families of opponents in a game. Raises UserError as `setting` does."""
    made = setting(choice, "own_cards")
    return OpponentFamilies(made.game, made.tree, cached_equilibrium(choice))


def read_opponents(choice: GameChoice, place: str) -> list[BoardOpponent]:
    """Read the opponents of a board: `place` is "development", or a folder of test opponents.

    Raises UserError if they are missing or damaged.
    """
    tree = setting(choice, "own_cards").tree
    if place != opponent_files.DEVELOPMENT:
        if not (Path(place) / opponent_files.DESCRIPTIONS).is_file():
            raise UserError(f"opponents: {place} has no test opponents: {opponent_files.REMEDY}")
        return opponent_files.load(Path(place), tree)
    folder = opponent_files.FOLDER / choice.name
    if not folder.is_dir() or choice.options:
        known = ", ".join(sorted(path.name for path in opponent_files.FOLDER.iterdir()))
        raise UserError(
            f"opponents: there are no development opponents for {choice.name} with these options, "
            f"only for {known}: {opponent_files.REMEDY}"
        )
    return opponent_files.load(folder, tree)


def match_generator(opponent: BoardOpponent | BucketOpponent, seed: int) -> np.random.Generator:
    """Return the generator of a match: other for each opponent, the same for each player."""
    return generator(seed, RngStream.EVALUATE, int(opponent.digest[:8], 16))


def play_matches(
    play: Callable[[np.random.Generator], MatchResult],
    opponent: BoardOpponent | BucketOpponent,
    seeds: Iterable[int],
) -> tuple[list[dict[str, Any]], float]:
    """Play a match with each seed against one opponent.

    `play`: plays a match with a generator. Returns a `MatchRecord` for each seed, and the player's
    seconds per game.
    """
    matches, seconds = [], []
    for seed in seeds:
        result = play(match_generator(opponent, seed))
        records = [each._asdict() for each in result.checkpoints]
        matches.append({"seed": seed, "checkpoints": records})
        seconds.append(result.seconds_per_game)
    return matches, float(np.mean(seconds))


def opponent_facts(choice: GameChoice, opponent: BoardOpponent) -> dict[str, Any]:
    """Compute what an `OpponentResult` says of an opponent's payoffs and of its use in training.

    Returns its entries `in_training`, `best_response_payoffs` and `equilibrium_payoff`, in points
    per game.
    """
    tree = setting(choice, "own_cards").tree
    return {
        "in_training": opponent.family in families(choice).training(),
        "best_response_payoffs": [best_response_payoff(tree, p) for p in opponent.phases],
        "equilibrium_payoff": exact_payoff(tree, cached_equilibrium(choice), opponent.phases[-1]),
    }


def opponent_result(
    method: str,
    told: str,
    opponent: BoardOpponent | BucketOpponent,
    facts: Mapping[str, Any],
    matches: Sequence[dict[str, Any]],
    seconds_per_game: float | None,
) -> dict[str, Any]:
    """Return an `OpponentResult` from the `MatchRecord`s of a player against an opponent.

    `method`: name of the player's method. `told`: the setting, mostly the opponent's cards that the
    player is told after a game. `facts`: the entries that `opponent_facts` returns. `matches`: a
    `MatchRecord` for each seed. `seconds_per_game`: the player's mean time; None if not measured.
    """
    return {
        "method": method,
        "told": told,
        "opponent": opponent.name,
        "opponent_sha256": opponent.digest,
        "family": opponent.family,
        **facts,
        "matches": list(matches),
        "seconds_per_game": seconds_per_game,
    }


def best_online(result: dict[str, Any], games: int) -> float:
    """Return the mean payoff over some games of the best response to each strategy in turn."""
    first = min(games, CHANGES_AFTER)
    payoffs = result["best_response_payoffs"]
    return float((first * payoffs[0] + (games - first) * payoffs[-1]) / games)


def summarise(results: Sequence[dict[str, Any]]) -> list[BoardRow]:
    """Summarise the `OpponentResult`s of all methods and settings: a row for each budget."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for each in results:
        groups.setdefault((each["method"], each["told"]), []).append(each)
    return [
        _row(method, told, group, index)
        for (method, told), group in groups.items()
        for index in range(len(group[0]["matches"][0]["checkpoints"]))
    ]


def _row(method: str, told: str, group: Sequence[dict[str, Any]], index: int) -> BoardRow:
    """Summarise a method's results against several opponents at checkpoint `index`, from 0.

    `told`: the information that the method was given. `group`: an `OpponentResult` for each
    opponent.
    """
    games = group[0]["matches"][0]["checkpoints"][index]["games"]
    shares, beyond, other = list[float](), list[float](), list[float]()
    online, gaps = list[float](), list[float]()
    for each in group:
        records = [match["checkpoints"][index] for match in each["matches"]]
        gaps += [gap for record in records if (gap := record["exploitability"]) is not None]
        best, equilibrium = each["best_response_payoffs"][-1], each["equilibrium_payoff"]
        payoffs = [record["payoff"] for record in records]
        if None not in payoffs and best >= EXPLOITABLE - TOLERANCE:
            payoff = float(np.mean(payoffs))
            shares.append(payoff / best)
            if equilibrium is not None:
                beyond.append((payoff - equilibrium) / (best - equilibrium))
            if not each["in_training"]:
                other.append(payoff / best)
        earned, possible = [record["online"] for record in records], best_online(each, games)
        if None not in earned and possible >= EXPLOITABLE - TOLERANCE:
            online.append(float(np.mean(earned)) / possible)
    return BoardRow(
        method=method,
        told=told,
        budget=games,
        share=_mean(shares),
        standard_error=standard_error(shares),
        opponents=len(shares),
        lowest_share=min(shares, default=None),
        share_beyond_equilibrium=_mean(beyond),
        share_of_other_families=_mean(other),
        online_share=_mean(online),
        online_standard_error=standard_error(online),
        exploitability=_mean(gaps),
        worst_exploitability=max(gaps, default=None),
    )


def shares_by_seed(
    results: Sequence[dict[str, Any]], games: int
) -> dict[tuple[str, str], list[float]]:
    """Return the mean share after some games for each seed, by method and setting.

    The mean is over the exploitable opponents that do not change. `results`: `OpponentResult`s.
    """
    found: dict[tuple[str, str], list[list[float]]] = {}
    for each in results:
        best = each["best_response_payoffs"][-1]
        payoffs = [
            record["payoff"]
            for match in each["matches"]
            for record in match["checkpoints"]
            if record["games"] == games
        ]
        if best < EXPLOITABLE - TOLERANCE or None in payoffs:
            continue
        shares = [payoff / best for payoff in payoffs]
        found.setdefault((each["method"], each["told"]), []).append(shares)
    return {key: np.mean(shares, axis=0).tolist() for key, shares in found.items()}


def summarise_families(results: Sequence[dict[str, Any]]) -> list[FamilyRow]:
    """Summarise the `OpponentResult`s by family, method, setting and budget, in this order."""
    groups: dict[tuple[str, bool, str, str, int], list[tuple[float, float]]] = {}
    for each in results:
        for index, record in enumerate(each["matches"][0]["checkpoints"]):
            payoffs = [match["checkpoints"][index]["payoff"] for match in each["matches"]]
            if None not in payoffs:
                names = each["family"], each["in_training"], each["method"], each["told"]
                pair = float(np.mean(payoffs)), each["best_response_payoffs"][-1]
                groups.setdefault((*names, record["games"]), []).append(pair)
    rows = []
    for key, pairs in groups.items():
        payoff, best = np.mean(pairs, axis=0).tolist()
        shares = [won / most for won, most in pairs if most >= EXPLOITABLE - TOLERANCE]
        rows.append(FamilyRow(*key, len(pairs), payoff, best, _mean(shares)))
    families = {row.family: None for row in rows}
    return [row for name in families for row in rows if row.family == name]


def _mean(values: Sequence[float]) -> float | None:
    """Return the mean of values, or None if there are none."""
    return float(np.mean(values)) if values else None

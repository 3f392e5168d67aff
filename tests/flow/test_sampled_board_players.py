"""Players of one's own on the board of limit hold'em: classes, environment policies, programs."""

from __future__ import annotations

import io
import json
import shlex
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import overtrick as ot
from overtrick.comparison import board_job, board_opponents, board_players
from overtrick.comparison.board_job import BoardJob
from overtrick.config import job_file
from overtrick.config.job_file import GameChoice
from overtrick.core import Array, Observations, UserError
from overtrick.evaluation.board import board_evaluation, bucket_board, bucket_match, process_player
from overtrick.evaluation.board.board_match import MatchResult
from overtrick.evaluation.board.board_setting import Decision, FinishedGame
from overtrick.evaluation.board.bucket_players import FixedPolicyPlayer
from overtrick.evaluation.board.process_player import ProcessPlayer
from overtrick.policies.memoryless import MemorylessPolicy

OPTIONS = {"name": "holdem", "view": "strength"}
HOLDEM = GameChoice(name="holdem", options={"view": "strength"})


@pytest.fixture(autouse=True)
def few_deals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bucket_match, "DEALS", 60)


def play(player: Any, games: tuple[int, ...] = (2, 8)) -> MatchResult:
    """Return the results of a match against a development opponent."""
    here = bucket_board.setting(HOLDEM, "showdown")
    opponent = bucket_board.read_opponents(HOLDEM, "development")[0]
    return bucket_match.play_match(here, player, opponent, games, np.random.default_rng(5))


def assert_same(one: MatchResult, other: MatchResult) -> None:
    for first, second in zip(one.checkpoints, other.checkpoints, strict=True):
        assert tuple(first)[::3] == pytest.approx(tuple(second)[::3], abs=1e-12)
        assert first.payoff == pytest.approx(second.payoff, abs=1e-12)


class PairsRaise(MemorylessPolicy):
    """Raises with a pair if it can; with other hands plays at random."""

    def probs(self, observations: Observations) -> Array:
        """Return the probabilities (R, A); the first two columns are the hole cards."""
        assert observations.legal is not None
        legal = observations.legal.astype(float)
        pairs = observations.observation[:, 0] // 4 == observations.observation[:, 1] // 4
        raises = pairs & observations.legal[:, 1]
        legal[raises] = np.eye(4)[1]
        found: Array = legal / legal.sum(axis=1, keepdims=True)
        return found


class ActsWithPairs:
    """The same, asked for one decision at a time; it checks its games by its decisions."""

    def __init__(self, setting: Any, rng: Any) -> None:
        self.setting, self.asked, self.games = setting, list[Decision](), 0

    def act(self, decision: Decision) -> Any:
        """Return an action with a pair, or the probabilities of all actions."""
        if decision.playing:
            self.asked.append(decision)
        first, second = decision.cards[2 * decision.seat : 2 * decision.seat + 2]
        if first // 4 == second // 4 and 1 in decision.legal:
            return 1
        return [float(a in decision.legal) / len(decision.legal) for a in range(4)]

    def observe(self, game: FinishedGame) -> None:
        """Check that the decisions of the game agree with its end."""
        self.games += 1
        for decision in self.asked:
            assert decision.seat == game.seat
            assert decision.actions == game.actions[: len(decision.actions)]
            for now, later in zip(decision.cards, game.cards, strict=True):
                assert now in (-1, later)
        self.asked.clear()


def test_an_acting_player_plays_as_the_same_policy() -> None:
    names = bucket_board.setting(HOLDEM, "own_cards").game.action_names
    assert names[1] == "raise"
    made = list[ActsWithPairs]()

    def player(setting: Any, rng: Any) -> ActsWithPairs:
        made.append(ActsWithPairs(setting, rng))
        return made[-1]

    assert_same(play(player), play(lambda setting, rng: FixedPolicyPlayer(PairsRaise())))
    assert made[0].games == 8


def test_a_wrong_answer_is_refused() -> None:
    class Wrong:
        """Answers with an action that no game has."""

        def __init__(self, setting: Any, rng: Any) -> None:
            """It needs nothing."""

        def act(self, decision: Decision) -> int:
            """Return no action."""
            return 7

    with pytest.raises(UserError, match=r"answer 7 to .* is neither a legal action nor 4"):
        play(Wrong)


def test_only_the_answers_of_a_player_take_its_time() -> None:
    here = bucket_board.setting(HOLDEM, "own_cards")
    opponent = bucket_board.read_opponents(HOLDEM, "development")[0]

    class Slow(ActsWithPairs):
        """Thinks in games, but not at checkpoints."""

        def act(self, decision: Decision) -> Any:
            """Return what a fast player does."""
            if decision.playing:
                time.sleep(0.05)
            return super().act(decision)

    def match(seconds: float) -> MatchResult:
        rng = np.random.default_rng(5)
        return bucket_match.play_match(here, Slow, opponent, (4,), rng, seconds)

    assert 0.05 < match(60).seconds_per_game < 10
    with pytest.raises(UserError, match=r"limits\.seconds_per_game"):
        match(0.02)


def test_a_player_without_a_method_is_refused(tmp_path: Path) -> None:
    class Strategy:
        """Has the method of a board with a tree."""

        def __init__(self, setting: Any, rng: Any) -> None:
            """It needs nothing."""

        def strategy(self, games: Any) -> None:
            """Return nothing."""

    with pytest.raises(UserError, match=r"in holdem, .* a player needs the method act or policy"):
        play(Strategy)
    message = {"type": "match", "game": OPTIONS, "told": "own_cards", "seed": 1}
    lines = io.StringIO(json.dumps(message))
    with pytest.raises(UserError, match=r"^in holdem a program's player needs the method act$"):
        process_player.serve(Strategy, lines, io.StringIO())


def test_observations_are_decoded_as_the_tree_has_them() -> None:
    """On a game with a tree, whose decisions are known by another way; in hold'em by the round."""
    for name in ("kuhn", "leduc"):
        here = board_evaluation.setting(GameChoice(name=name), "own_cards")
        for decision in here.decisions:
            row = here.tree.observations.observation[decision.infoset]
            cards, actions = here.game.decode(decision.seat, row)
            assert cards[: len(decision.cards)] == decision.cards
            assert set(cards[len(decision.cards) :]) <= {-1}
            assert actions == decision.actions
    game = bucket_board.setting(HOLDEM, "own_cards").game
    deals = game.deal(200, np.random.default_rng(3))
    state, shown = game.start(deals), set[int]()
    while len(observations := game.observe(state)):
        for number, seat, row in zip(
            observations.game, observations.seat, observations.observation, strict=True
        ):
            cards, _ = game.decode(int(seat), row)
            board = sum(card >= 0 for card in cards[4:])
            hole = tuple(deals[number, 2 * seat : 2 * seat + 2])
            assert cards[2 * seat : 2 * seat + 2] == hole
            assert cards[4 : 4 + board] == tuple(deals[number, 4 : 4 + board])
            assert board == (0, 3, 4, 5)[game.betting.round[row[-1]]]
            shown.add(board)
        actions = observations.legal.argmax(axis=1)  # calls and checks
        game.step(state, observations, actions)
    assert shown == {0, 3, 4, 5}


def test_a_policy_of_an_environment_sees_features() -> None:
    game = bucket_board.setting(HOLDEM, "own_cards").game

    def first_legal(observation: Any, mask: Any) -> int:
        assert observation.dtype == np.float32
        assert len(observation) == game.features(EMPTY).shape[1]
        return int(np.flatnonzero(mask)[0])

    class FirstLegal(MemorylessPolicy):
        """Takes the first legal action."""

        def probs(self, observations: Observations) -> Array:
            """Return 1 for it."""
            assert observations.legal is not None
            return np.eye(4)[observations.legal.argmax(axis=1)]

    EMPTY = game.observe(game.start(game.deal(1, np.random.default_rng(0))))
    expected = play(lambda setting, rng: FixedPolicyPlayer(FirstLegal()))
    assert_same(play(ot.environment_player(first_legal)), expected)


PROGRAM = """
import overtrick as ot

class Careful:
    def __init__(self, setting, rng):
        self.lost = 0

    def act(self, decision):
        legal = decision.legal
        if self.lost > 3:
            return legal[-1]
        return [float(a in legal) / len(legal) for a in range(4)]

    def observe(self, game):
        self.lost += game.payoff < 0
"""


def test_a_program_plays_as_in_this_process(tmp_path: Path) -> None:
    found = dict[str, Any]()
    exec(PROGRAM, found)  # the class that the program has, too
    (tmp_path / "player.py").write_text(f"{PROGRAM}\not.serve_player(Careful)\n")
    command = shlex.join([sys.executable, str(tmp_path / "player.py")])
    there = play(lambda s, rng: ProcessPlayer(command, Path(), HOLDEM, s, rng, None, 4))
    assert_same(play(found["Careful"]), there)


def test_a_program_of_a_job_stands_on_the_board(tmp_path: Path) -> None:
    (tmp_path / "player.py").write_text(f"{PROGRAM}\not.serve_player(Careful)\n")
    program = {"player": "program", "command": shlex.join([sys.executable, "player.py"])}
    content = {
        "trainer": "board", "game": OPTIONS, "budgets": [2], "seeds": [0],
        "limits": {"seconds_per_game": 60},
        "methods": {"mine": {**program, "folder": str(tmp_path)}},
    }  # fmt: skip
    job = job_file.parse(content, {"board": BoardJob}, "this test")
    opponent = bucket_board.read_opponents(HOLDEM, "development")[0]
    rng = np.random.default_rng(0)
    result = board_players.evaluate_method(rng, job, "mine", "showdown", opponent)
    (match,) = result["matches"]
    assert match["checkpoints"][0]["games"] == 2
    assert abs(match["checkpoints"][0]["payoff"]) < 20
    assert result["seconds_per_game"] > 0


def test_a_class_stands_on_the_board() -> None:
    (row,) = ot.board(ActsWithPairs, OPTIONS, seeds=[0], budgets=[3])
    assert (row["method"], row["budget"]) == ("ActsWithPairs", 3)
    assert 4 <= row["opponents"] <= 6  # exploitable, in so few deals
    assert row["exploitability"] is None
    assert -3 < row["share"] < 1


def test_bots_of_openspiel_and_missing_programs_are_refused(tmp_path: Path) -> None:
    player = ot.openspiel_player(None, lambda seat, seed: None)
    with pytest.raises(UserError, match="bots of OpenSpiel cannot play on the board of holdem"):
        play(player)
    (tmp_path / "board.yaml").write_text(
        "trainer: board\ngame: {name: holdem, view: strength}\n"
        "methods: {mine: {player: program, command: no-such-program}}\n"
    )
    job = board_job.load(tmp_path / "board.yaml", [])
    with pytest.raises(UserError, match="there is no program `no-such-program`"):
        board_opponents.check_methods(job)

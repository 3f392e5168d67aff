"""Players of other platforms on a board: OpenSpiel's bots, environment policies, programs."""

from __future__ import annotations

import io
import json
import re
import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import overtrick as ot
from overtrick.comparison import board, board_job, board_opponents
from overtrick.comparison.board_job import BoardJob
from overtrick.config import job_file
from overtrick.config.job_file import GameChoice
from overtrick.core import UserError
from overtrick.environments.pettingzoo_aec import aec_env
from overtrick.evaluation.board import board_evaluation, process_player
from overtrick.evaluation.board.board_match import play_match
from overtrick.evaluation.board.board_setting import BoardSetting, Decision, FinishedGame
from overtrick.evaluation.board.opponent_files import BoardOpponent
from overtrick.evaluation.board.player_adapters import (
    environment_player,
    openspiel_player,
    states_of,
)
from overtrick.evaluation.board.players import FixedPlayer
from overtrick.evaluation.board.process_player import ProcessPlayer
from overtrick.evaluation.game_cache import cached_equilibrium
from overtrick.runs import lifecycle

KUHN, TEXTBOOK = GameChoice(name="kuhn"), GameChoice(name="leduc_textbook")


def against_uniform(
    choice: GameChoice, player: Any, games: Sequence[int] = (20,), seconds: float | None = None
) -> Any:
    """Return the results of a match against uniform play."""
    here = board_evaluation.setting(choice, "own_cards")
    opponent = BoardOpponent("uniform", "uniform", (here.tree.uniform(),))
    return play_match(here, player, opponent, games, np.random.default_rng(3), seconds)


class Rows:
    """Acting player that answers with rows of a strategy (N, A)."""

    def __init__(self, setting: BoardSetting, strategy: Any) -> None:
        self.strategy, self.told = strategy, list[FinishedGame]()

    def act(self, decision: Decision) -> Sequence[float]:
        """Return the row of the information set."""
        row: list[float] = self.strategy[decision.infoset].tolist()
        return row

    def observe(self, game: FinishedGame) -> None:
        """Keep the game."""
        self.told.append(game)


def test_an_acting_player_plays_the_games_of_its_strategy() -> None:
    """Both kinds of players use the same random numbers for the same games."""
    sigma, made = cached_equilibrium(TEXTBOOK), list[Rows]()

    def acting(setting: BoardSetting, rng: Any) -> Rows:
        made.append(Rows(setting, sigma))
        return made[-1]

    found = against_uniform(TEXTBOOK, acting, (50, 200))
    fixed = against_uniform(TEXTBOOK, lambda setting, rng: FixedPlayer(sigma), (50, 200))
    for one, other in zip(found.checkpoints, fixed.checkpoints, strict=True):
        assert tuple(one) == pytest.approx(tuple(other), rel=1e-9)
    assert len(made[0].told) == 200
    assert {game.seat for game in made[0].told} == {0, 1}


def test_actions_in_place_of_probabilities_give_an_unbiased_payoff() -> None:
    class Chooses:
        """It bets with the best card, and with the others in a third of the games."""

        def __init__(self, setting: BoardSetting, rng: np.random.Generator) -> None:
            self.rng = rng

        def act(self, decision: Decision) -> int:
            """Return the action `bet` or `pass`."""
            return int(max(decision.cards) == 2 or self.rng.random() < 1 / 3)

    here = board_evaluation.setting(KUHN, "own_cards")
    sigma = here.tree.uniform()
    for row, decision in enumerate(here.decisions):
        sigma[row] = (0, 1) if max(decision.cards) == 2 else (2 / 3, 1 / 3)
    exact = against_uniform(KUHN, lambda setting, rng: FixedPlayer(sigma)).checkpoints[0]
    sampled = against_uniform(KUHN, Chooses).checkpoints[0]
    assert sampled.payoff == pytest.approx(exact.payoff, abs=0.1)
    assert sampled.exploitability == pytest.approx(exact.exploitability, abs=0.2)


@pytest.mark.parametrize("answer", [7, "call", [0.5, 0.6], [1.0], [1.5, -0.5], [[1], [1, 2]], True])
def test_an_answer_that_is_no_play_is_refused(answer: Any) -> None:
    class Wrong:
        def __init__(self, setting: BoardSetting, rng: Any) -> None:
            """It needs nothing."""

        def act(self, decision: Decision) -> Any:
            return answer

    with pytest.raises(UserError, match="neither a legal action nor 2 probabilities"):
        against_uniform(KUHN, Wrong)


def test_bots_of_openspiel_play_their_policies() -> None:
    pyspiel = pytest.importorskip("pyspiel")
    for choice, name in ((KUHN, "kuhn_poker"), (TEXTBOOK, "leduc_poker")):
        game = pyspiel.load_game(name)
        solver = pyspiel.CFRSolver(game)
        for _ in range(20):
            solver.evaluate_and_update_policy()
        policy = solver.tabular_average_policy()
        here = board_evaluation.setting(choice, "own_cards")
        sigma = np.zeros(here.tree.legal.shape)
        for row, state in zip(sigma, states_of(here, game), strict=True):
            for action, probability in policy.action_probabilities(state).items():
                row[action] = probability
        # OpenSpiel's own exploitability of this policy
        gap = pyspiel.exploitability(game, policy)
        assert ot.exploitability(choice.name, sigma) == pytest.approx(gap, rel=1e-6)

        def new_bot(seat: int, seed: int, game: Any = game, policy: Any = policy) -> Any:
            return pyspiel.make_policy_bot(game, seat, seed, policy)

        player = openspiel_player(game, new_bot)
        found = against_uniform(choice, player, (50,)).checkpoints[0]
        fixed = against_uniform(choice, lambda s, rng, sigma=sigma: FixedPlayer(sigma), (50,))
        assert tuple(found) == pytest.approx(tuple(fixed.checkpoints[0]), rel=1e-6)


def test_a_bot_without_a_policy_is_asked_for_actions() -> None:
    pyspiel = pytest.importorskip("pyspiel")

    class AlwaysCalls(pyspiel.Bot):  # type: ignore[misc]
        """Calls, and gives no policy."""

        def __init__(self) -> None:
            pyspiel.Bot.__init__(self)

        def restart_at(self, state: Any) -> None:
            """It keeps nothing."""

        def step(self, state: Any) -> int:
            """Return the action `call`."""
            return 1

    player = openspiel_player(pyspiel.load_game("leduc_poker"), lambda seat, seed: AlwaysCalls())
    sigma = np.zeros(board_evaluation.setting(TEXTBOOK, "own_cards").tree.legal.shape)
    sigma[:, 1] = 1
    fixed = against_uniform(TEXTBOOK, lambda setting, rng: FixedPlayer(sigma))
    assert against_uniform(TEXTBOOK, player).checkpoints == fixed.checkpoints


def test_a_game_with_other_rules_is_refused() -> None:
    pyspiel = pytest.importorskip("pyspiel")
    leduc = board_evaluation.setting(GameChoice(name="leduc"), "own_cards")
    with pytest.raises(UserError, match=re.escape("leduc_poker() has other actions after")):
        states_of(leduc, pyspiel.load_game("leduc_poker"))
    kuhn = board_evaluation.setting(KUHN, "own_cards")
    with pytest.raises(UserError, match=r"chance elsewhere|ends after other"):
        states_of(kuhn, pyspiel.load_game("kuhn_poker(players=3)"))


def test_a_policy_of_an_environment_sees_its_observations() -> None:
    env = aec_env("leduc")
    env.reset(seed=1)
    seen = {}

    def policy(observation: Any, mask: Any) -> int:
        seen[observation.tobytes()] = mask
        return int(np.flatnonzero(mask)[0])

    against_uniform(GameChoice(name="leduc"), environment_player(policy), (5,))
    space = env.observation_space("seat_0")
    for _ in range(3):
        observed = env.observe(env.agent_selection)
        assert space.contains(observed)
        assert seen[observed["observation"].tobytes()].tolist() == observed["action_mask"].tolist()
        env.step(int(np.flatnonzero(observed["action_mask"])[0]))
        if all(env.terminations.values()):
            break


SERVED = """
import numpy as np
import overtrick as ot

class Explores:
    \"\"\"Plays at random; then prefers the first action, but not in every game.\"\"\"

    def __init__(self, setting, rng):
        print("a line that the player prints")
        self.setting = setting

    def strategy(self, games):
        self.seen = len(games)
        legal = self.setting.tree.legal
        return self.setting.tree.uniform() if len(games) < 10 else np.eye(2)[legal.argmax(axis=1)]

    def next_strategy(self, games):
        self.asked = getattr(self, "asked", -1) + 1
        assert len(games) == self.asked  # once for each game, from the first
        if getattr(self, "seen", -1) == len(games):  # a checkpoint came before the game
            return np.eye(2)[1 - self.setting.tree.legal.argmax(axis=1)]
        return self.setting.tree.uniform()
"""

PLAIN = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if message["type"] == "act":
        print(json.dumps({"probabilities": [2 / 3, 1 / 3]}), flush=True)
    else:
        print("{}", flush=True)
"""


def program(folder: Path, source: str) -> str:
    """Write a program; return the command that starts it."""
    (folder / "player.py").write_text(source)
    return shlex.join([sys.executable, str(folder / "player.py")])


def new_process(command: str, seconds: float | None = None, memory_gib: float | None = None) -> Any:
    """Return a function that starts a program as the player of a match of Kuhn poker."""
    return lambda setting, rng: ProcessPlayer(
        command, Path(), KUHN, setting, rng, seconds, memory_gib
    )


def test_a_program_plays_as_it_answers(tmp_path: Path) -> None:
    sigma = np.tile([2 / 3, 1 / 3], (12, 1))
    fixed = against_uniform(KUHN, lambda setting, rng: FixedPlayer(sigma), (10, 40))
    found = against_uniform(KUHN, new_process(program(tmp_path, PLAIN)), (10, 40))
    for one, other in zip(found.checkpoints, fixed.checkpoints, strict=True):
        assert tuple(one) == pytest.approx(tuple(other), rel=1e-9)


def test_a_served_player_plays_as_in_this_process(tmp_path: Path) -> None:
    found = dict[str, Any]()
    exec(SERVED, found)  # the class that the program has, too
    games = (*range(5, 20), 40)
    here = against_uniform(KUHN, found["Explores"], games)
    command = program(tmp_path, f"{SERVED}\not.serve_player(Explores)\n")
    there = against_uniform(KUHN, new_process(command, memory_gib=4), games)
    assert here.checkpoints[0].payoff != here.checkpoints[-1].payoff
    for one, other in zip(here.checkpoints, there.checkpoints, strict=True):
        assert tuple(one) == pytest.approx(tuple(other), rel=1e-9)


ANSWERS = "import sys\nfor number, line in enumerate(sys.stdin):\n    "


@pytest.mark.parametrize(
    ("source", "limits", "message"),
    [
        ("raise SystemExit(3)", {}, "has ended with exit code 3"),
        (f"{ANSWERS}print('hello', flush=True)", {}, "answers b'hello' to {'type': 'match'"),
        (f"{ANSWERS}print('[1]', flush=True)", {}, "not a JSON object"),
        (f"{ANSWERS}print('{{}}\\n{{}}', flush=True)", {}, "has written more than one line"),
        (f"{ANSWERS}print('{{}}', flush=True)", {}, "neither an action nor probabilities"),
        (f"{ANSWERS}number or print('{{}}', flush=True)", {"seconds": 0.2}, "has not answered"),
        (
            f"{ANSWERS}bytearray(1 << 30) and print('{{}}', flush=True)",
            {"memory_gib": 0.5},
            "has ended with exit code 1; limits.memory_gib is 0.5",
        ),
    ],
)
def test_a_program_that_does_not_answer_is_named(
    tmp_path: Path, source: str, limits: dict[str, float], message: str
) -> None:
    player = new_process(program(tmp_path, source), **limits)
    with pytest.raises(UserError, match=re.escape(message)) as raised:
        against_uniform(KUHN, player)
    assert str(raised.value).startswith(f"the program `{shlex.quote(sys.executable)} ")


def test_a_program_that_is_missing_is_named() -> None:
    with pytest.raises(UserError, match="cannot start `no-such-program 7`: No such file"):
        against_uniform(KUHN, new_process("no-such-program 7"))


def test_a_player_that_spends_its_time_is_refused() -> None:
    class Slow:
        def __init__(self, setting: BoardSetting, rng: Any) -> None:
            self.setting = setting

        def strategy(self, games: Sequence[FinishedGame]) -> Any:
            time.sleep(0.02)
            return self.setting.tree.uniform()

    assert against_uniform(KUHN, Slow, seconds=0.5).seconds_per_game > 0.02
    with pytest.raises(UserError, match=r"more than the 0\.1 s of a match: raise limits"):
        against_uniform(KUHN, Slow, seconds=0.005)


def test_a_program_is_a_method_of_a_board(
    tmp_path: Path, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store)
    source = PLAIN.replace("[2 / 3, 1 / 3]", "[float(k == message['legal'][0]) for k in range(4)]")
    command = program(tmp_path, source)
    content = {
        "trainer": "board",
        "game": "leduc",
        "seeds": [0],
        "budgets": [4],
        "told": ["own_cards"],
        "limits": {"seconds_per_game": 20},
        "methods": {"calls": {"player": "program", "command": command}},
    }
    job = job_file.parse(content, {"board": BoardJob}, "here")
    assert board.check(job) == 17
    done = board.run(lifecycle.open_folder(job, "b", True), lambda number: None)
    (row,) = done.json_results()["rows"]
    (other,) = ot.board(FirstAction, seeds=[0], budgets=[4])
    assert row["share"] == pytest.approx(other["share"], rel=1e-9)
    assert row["online_share"] == pytest.approx(other["online_share"], rel=1e-9)
    before = board_opponents.players_sha256(job)
    (tmp_path / "player.py").write_text(PLAIN)
    assert board_opponents.players_sha256(job) != before


class FirstAction:
    """Player that always takes the first legal action."""

    def __init__(self, setting: BoardSetting, rng: Any) -> None:
        legal = setting.tree.legal
        self.sigma = np.eye(legal.shape[1])[legal.argmax(axis=1)]

    def strategy(self, games: Sequence[FinishedGame]) -> Any:
        """Return the strategy."""
        return self.sigma


def test_the_folder_of_a_program_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A board that is continued from another folder starts the program where it was started."""
    monkeypatch.chdir(tmp_path)
    program(tmp_path, PLAIN)
    methods = {"mine": {"player": "program", "command": "python player.py"}}
    content = {"trainer": "board", "game": "kuhn", "methods": methods}
    (tmp_path / "b.yaml").write_text(json.dumps(content))
    job = board_job.load("b.yaml", ())
    assert job.methods["mine"].folder == str(tmp_path)
    before = board_opponents.players_sha256(job)
    monkeypatch.chdir("/")
    assert board_opponents.players_sha256(job) == before
    found = against_uniform(
        KUHN,
        lambda setting, rng: ProcessPlayer(
            "python player.py", tmp_path, KUHN, setting, rng, None, None
        ),
    )
    assert len(found.checkpoints) == 1


def test_a_line_that_is_no_message_of_a_board_is_refused() -> None:
    untold = {"type": "match", "game": {"name": "kuhn"}, "told": "nonsense", "seed": 1}
    for line in ("hello", "[]", '{"type": "act"}', '{"type": "bye"}', json.dumps(untold)):
        with pytest.raises(UserError, match="a board"):
            process_player.serve(FirstAction, io.StringIO(line), io.StringIO())


def test_errors_of_a_served_player_are_not_those_of_a_board() -> None:
    class Fails(FirstAction):
        def act(self, decision: Decision) -> int:
            """Look up what is not there."""
            return {}["never set"]

    begin = {"type": "match", "game": {"name": "kuhn"}, "told": "own_cards", "seed": 1}
    act = {"type": "act", "seat": 0, "cards": [1, -1], "actions": [], "playing": True}
    lines = io.StringIO(f"{json.dumps(begin)}\n{json.dumps(act)}\n")
    with pytest.raises(KeyError, match="never set"):
        process_player.serve(Fails, lines, io.StringIO())

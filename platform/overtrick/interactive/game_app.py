"""Play games full-screen in the terminal: the observation, a button for each action, and advice.

The game runs in a thread of its own and waits at each decision for an answer from the screen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import ItemGrid, VerticalScroll
from textual.content import Content
from textual.widgets import Button, DataTable, Footer, Header, Static

from overtrick.core import Observations
from overtrick.interactive.human_game import HumanGame, advice_rows
from overtrick.interactive.session import PlayedGame, QuitRequested, UndoRequested, play_game
from overtrick.storage.game_records import Move

ADVISE, NEXT, QUIT, UNDO = "advise", "next", "quit", "undo"
LARGEST_KEY = 9
"""Actions with a larger number have no key, only a button."""


class GameApp(App[None]):
    """Terminal application in which a person plays games one after another.

    Number keys and buttons choose an action; `?` shows advice, `u` takes the last decision back,
    `q` ends the session.
    """

    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #observation { height: 1fr; min-height: 8; padding: 1 2 0 2; }
    #advice { height: auto; max-height: 35%; display: none; }
    #choices { height: auto; max-height: 40%; padding: 1 2; }
    #actions { grid-gutter: 1 1; height: auto; }
    #actions Button { width: 100%; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("question_mark", "answer('advise')", "advice", key_display="?"),
        Binding("u", "answer('undo')", "undo"),
        Binding("q", "answer('quit')", "quit"),
        Binding("ctrl+q", "answer('quit')", show=False, priority=True),
        *[Binding(str(key), f"press({key})", show=False) for key in range(1, LARGEST_KEY + 1)],
    ]

    def __init__(
        self,
        human_game: HumanGame,
        seats: Sequence[int],
        seed: int,
        on_game_end: Callable[[PlayedGame], None],
    ) -> None:
        """Prepare a session of one game for each entry of `seats`, the person's seat in it.

        `on_game_end`: called after each game, from the game's thread.
        """
        super().__init__()
        self.human_game = human_game
        self.seats = seats
        self.seed = seed
        self.on_game_end = on_game_end
        self.error: BaseException | None = None  # of the game's thread
        self.title = human_game.game.name
        self._buttons: Sequence[Button] = ()  # those on the screen
        self._answers: SimpleQueue[int | str] = SimpleQueue()
        self._awaits_answer = False  # the game's thread waits for an answer
        self._legal: Sequence[int] = ()  # the legal actions of the decision on the screen
        self._may_undo = False
        self.screen_closed = False

    def compose(self) -> ComposeResult:
        """Create the parts of the screen, from top to bottom."""
        yield Header()
        with VerticalScroll(id="observation"):
            yield Static(id="text", markup=False)
        yield DataTable(id="advice", cursor_type="none")
        with VerticalScroll(id="choices"):
            yield ItemGrid(id="actions", min_column_width=10)
        yield Footer()

    def on_mount(self) -> None:
        """Start the first game."""
        self.run_worker(self._play, thread=True)

    def on_unmount(self) -> None:
        """Let the game's thread end, however the screen was closed."""
        self.screen_closed = True
        self._answers.put(QUIT)

    def _play(self) -> None:
        """Play all games of the session, in the game's thread."""
        try:
            for number, seat in enumerate(self.seats):
                place = f"game {1 + number} of {len(self.seats)}, against {self.human_game.against}"
                own = f"you are {self.human_game.seat_name(seat)}"
                self.call_from_thread(setattr, self, "sub_title", f"{own}, {place}")
                done = play_game(self.human_game, seat, self.seed, number, self._ask)
                self.on_game_end(done)
                self.call_from_thread(self._show_end, done, 1 + number == len(self.seats))
                if self._answers.get() == QUIT:
                    break
        except QuitRequested:
            pass
        except BaseException as error:  # the caller raises it again after the screen is closed
            self.error = error
        if not self.screen_closed:
            self.call_from_thread(self.exit)

    def _ask(self, observations: Observations, moves: Sequence[Move]) -> int:
        """Show a decision and wait for its action, in the game's thread."""
        self.call_from_thread(self._show_decision, observations, moves)
        while True:
            answer = self._answers.get()
            if isinstance(answer, int):
                return answer
            if answer == UNDO:
                raise UndoRequested
            if answer == QUIT:
                raise QuitRequested
            advice = advice_rows(self.human_game, observations)
            self.call_from_thread(self._show_advice, advice)

    def _show_decision(self, observations: Observations, moves: Sequence[Move]) -> None:
        """Show one decision (one row): what the person sees, and a button for each legal action."""
        human_game = self.human_game
        assert observations.legal is not None
        self._legal = observations.legal[0].nonzero()[0].tolist()
        self._may_undo = any(move.seat == observations.seat[0] for move in moves)
        text = human_game.describe_observation(observations.observation[0], moves)
        self.query_one("#text", Static).update(text)
        names = human_game.game.action_names
        numbered = human_game.presentation.numbered_actions
        self._show_buttons(
            [
                (f"{1 + k} {names[k]}" if numbered and k < LARGEST_KEY else names[k], str(k))
                for k in self._legal
            ]
        )

    def _show_end(self, done: PlayedGame, last: bool) -> None:
        """Show a finished game with all cards. `last`: it is the last game of the session."""
        self._legal, self._may_undo = (), False
        text = self.human_game.presentation.describe_deal(done.deal, done.moves)
        result = done.describe_result(self.human_game.game.unit)
        self.query_one("#text", Static).update(f"{text}\n\n{result}")
        self._show_buttons([("end" if last else "next game", NEXT)])

    def _show_buttons(self, buttons: Sequence[tuple[str, str]]) -> None:
        """Replace the buttons and wait for an answer. `buttons`: the label and name of each."""
        self.query_one("#advice", DataTable).display = False
        grid = self.query_one("#actions", ItemGrid)
        grid.remove_children()
        made = [Button(Content(label), name=name, compact=True) for label, name in buttons]
        grid.mount(*made)
        self._buttons = made
        made[0].focus()
        self._awaits_answer = True

    def _show_advice(self, rows: Sequence[Sequence[str]]) -> None:
        """Show advice and wait for an answer. `rows`: the headings, then a row for each action."""
        shown = self.query_one("#advice", DataTable)
        shown.clear(columns=True)
        headings, *actions = rows
        shown.add_columns(*headings)
        shown.add_rows([[Text(cell) for cell in row] for row in actions])
        shown.display = True
        if self.human_game.value_source:
            self.notify(f"value: {self.human_game.value_source}")
        self._awaits_answer = True

    def on_button_pressed(self, event: Button.Pressed) -> None:
        """Answer with the pressed button; a button of an earlier decision is ignored."""
        name = event.button.name or ""
        if event.button in self._buttons:
            self._answer(int(name) if name.isdigit() else name)

    def action_press(self, key: int) -> None:
        """Choose the action with a number, if it is legal."""
        if self.human_game.presentation.numbered_actions and key - 1 in self._legal:
            self._answer(key - 1)

    def action_answer(self, answer: str) -> None:
        """Ask for advice, take the last decision back, or end the session."""
        if answer == UNDO and not self._may_undo:
            self.notify("there is no decision to take back")
        elif answer == QUIT or self._legal:
            self._answer(answer)

    def _answer(self, answer: int | str) -> None:
        """Answer what is on the screen; a second answer to the same is ignored, except QUIT."""
        if self._awaits_answer or answer == QUIT:
            self._awaits_answer = False
            self._answers.put(answer)

"""Play a game full-screen in the terminal: the table, a button for each action, and advice.

The game runs in a thread of its own and waits at each decision for an answer of the screen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import ClassVar

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.widgets import Button, DataTable, Footer, Header, Static

from overtrick.core import Observations
from overtrick.interactive.human_game import HumanGame, advice_rows
from overtrick.interactive.session import (
    PlayedGame,
    QuitRequested,
    UndoRequested,
    play_game,
)
from overtrick.storage.game_records import Move

UNDO, QUIT, NEXT = "undo", "quit", "next"


class GameScreen(App[None]):
    """Terminal application in which a person plays games one after another.

    Number keys and buttons choose an action; `?` shows advice, `u` takes the last decision back,
    `q` ends the session.
    """

    CSS = """
    #table { height: 1fr; padding: 1 2; }
    #advice { height: auto; max-height: 50%; display: none; }
    #actions { height: auto; padding: 1 2; }
    #actions Button { margin-right: 1; min-width: 8; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("question_mark", "advise", "advice", key_display="?"),
        Binding("u", "undo", "undo"),
        Binding("q", "leave", "quit"),
        *[Binding(str(number), f"press({number})", show=False) for number in range(1, 10)],
    ]

    def __init__(
        self,
        table: HumanGame,
        seats: Sequence[int],
        seed: int,
        finished: Callable[[PlayedGame], None],
    ) -> None:
        """Prepare a session of one game for each entry of `seats`, the person's seat in it.

        `finished`: called after each game, from the game's thread.
        """
        super().__init__()
        self.table = table
        self.seats = seats
        self.seed = seed
        self.finished = finished
        self.answers: SimpleQueue[int | str] = SimpleQueue()
        self.error: BaseException | None = None
        self._decision: Observations | None = None  # None: no decision is asked for
        self._may_undo = False
        self.title = f"{table.game.name} against {table.against}"

    def compose(self) -> ComposeResult:
        """Create the parts of the screen, from top to bottom."""
        yield Header()
        with VerticalScroll(id="table"):
            yield Static(id="text", markup=False)
        yield DataTable(id="advice", cursor_type="none")
        yield Horizontal(id="actions")
        yield Footer()

    def on_mount(self) -> None:
        """Start the first game."""
        self.run_worker(self._play, thread=True)

    def _play(self) -> None:
        """Play all games of the session. It runs in a thread of its own."""
        try:
            for number, seat in enumerate(self.seats):
                done = play_game(self.table, seat, self.seed, number, self._ask)
                self.finished(done)
                self.call_from_thread(self._show_end, number, done)
                if self.answers.get() == QUIT:
                    break
        except QuitRequested:
            pass
        except BaseException as error:  # the caller raises it again after the screen is closed
            self.error = error
        self.call_from_thread(self.exit)

    def _ask(self, observations: Observations, moves: Sequence[Move]) -> int:
        """Show a decision and wait for its answer, in the game's thread."""
        self.call_from_thread(self._show_decision, observations, moves)
        answer = self.answers.get()
        if answer == UNDO:
            raise UndoRequested
        if isinstance(answer, str):
            raise QuitRequested
        return answer

    def _show_decision(self, observations: Observations, moves: Sequence[Move]) -> None:
        """Show one decision (one row): what the person sees, and a button for each legal action."""
        self._decision = observations
        self._may_undo = any(move.seat == observations.seat[0] for move in moves)
        text = self.table.describe_observation(observations.observation[0], moves)
        self.query_one("#text", Static).update(text)
        names = self.table.game.action_names
        assert observations.legal is not None
        legal = observations.legal[0].nonzero()[0].tolist()
        self._show_buttons([(f"{1 + action} {names[action]}", str(action)) for action in legal])

    def _show_end(self, number: int, done: PlayedGame) -> None:
        """Show a finished game with all cards."""
        self._decision = None
        unit = self.table.game.unit
        points = f"you win {done.points:+g} {unit}s{done.lost_points()}"
        text = self.table.presentation.describe_deal(done.deal, done.moves)
        self.query_one("#text", Static).update(f"{text}\n\n{points}")
        last = number + 1 == len(self.seats)
        self._show_buttons([("results" if last else "next game", NEXT)])

    def _show_buttons(self, buttons: Sequence[tuple[str, str]]) -> None:
        """Replace the buttons. `buttons`: the label and the answer of each."""
        self.query_one("#advice", DataTable).display = False
        row = self.query_one("#actions", Horizontal)
        row.remove_children()
        made = [Button(label, name=answer) for label, answer in buttons]
        row.mount(*made)
        made[0].focus()

    def on_button_pressed(self, event: Button.Pressed) -> None:
        """Answer with the pressed button."""
        answer = event.button.name or NEXT
        self._answer(int(answer) if answer.isdigit() else answer)

    def _answer(self, answer: int | str) -> None:
        """Give the game's thread an answer to the current decision."""
        self._decision = None
        self.answers.put(answer)

    def action_press(self, number: int) -> None:
        """Choose the action with a number, if it is legal."""
        if self._decision is not None and self._decision.legal is not None:
            legal = self._decision.legal[0]
            if number <= len(legal) and legal[number - 1]:
                self._answer(number - 1)

    def action_undo(self) -> None:
        """Take the last decision of the game back."""
        if self._decision is not None and self._may_undo:
            self._answer(UNDO)
        else:
            self.notify("there is no decision to take back")

    def action_leave(self) -> None:
        """End the session."""
        self._answer(QUIT)

    def action_advise(self) -> None:
        """Show each legal action with its probability and its value."""
        if self._decision is None:
            return
        shown = self.query_one("#advice", DataTable)
        shown.clear(columns=True)
        headings, *rows = advice_rows(self.table, self._decision)
        shown.add_columns(*headings)
        shown.add_rows(rows)
        shown.display = True
        if self.table.value_source:
            self.notify(f"value: {self.table.value_source}")

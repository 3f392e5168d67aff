"""Make a game of OpenSpiel and play it at random: the program of a process that may crash.

Its standard input is OpenSpiel's name of the game. It imports nothing of this package.
"""

from __future__ import annotations

import random
import sys

import pyspiel

GAMES, LONGEST = 20, 100  # games played, and moves after which a game is left unfinished


def play(name: str) -> int:
    """Play a game of OpenSpiel at random some times, and return the number of finished games.

    Ask for all that a game tree is made of. Raises the errors of OpenSpiel, which may also kill the
    process.
    """
    if name.partition("(")[0] not in pyspiel.registered_names():
        import open_spiel.python.games  # noqa: F401 - games written in Python register themselves
    game = pyspiel.load_game(name)
    if game.get_type().dynamics == pyspiel.GameType.Dynamics.SIMULTANEOUS:
        game = pyspiel.convert_to_turn_based(game)
    strings = game.get_type().provides_information_state_string
    finished = 0
    for seed in range(GAMES):
        rng, state = random.Random(seed), game.new_initial_state()
        for _ in range(LONGEST):
            if state.is_terminal():
                state.returns()
                finished += 1
                break
            if state.is_chance_node():
                state.apply_action(rng.choice(state.chance_outcomes())[0])
                continue
            if strings:
                state.information_state_string()
            state.apply_action(rng.choice(state.legal_actions()))
    return finished


if __name__ == "__main__":
    play(sys.stdin.buffer.read().decode("utf-8", "surrogatepass"))

"""The schedule on which players of boards update."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from overtrick.evaluation.board.updating_player import UpdatingPlayer


class Counts(UpdatingPlayer):
    """Player that records after how many games it updates."""

    def __init__(self, divisor: int) -> None:
        super().__init__(divisor)
        self.seen = list[Any]()
        self.updates = list[int]()

    def _observe(self, game: Any) -> None:
        self.seen.append(game)

    def _update(self) -> None:
        self.updates.append(len(self.seen))


def test_updates_become_rarer_as_the_match_grows_longer() -> None:
    player, games = Counts(10), list[Any]()
    for number in range(201):
        player._update_before_game(games)
        games.append(number)
    assert player.updates[:19] == [*range(1, 20)]
    assert player.updates[19:25] == [21, 23, 25, 27, 29, 32]
    gaps = [later - earlier for earlier, later in pairwise(player.updates)]
    assert gaps == [max(1, n // 10) for n in player.updates[1:]]
    assert player.seen == games[:200]


def test_a_checkpoint_updates_once() -> None:
    player, games = Counts(1), list(range(7))
    player._update_before_game(games[:5])
    player._update_at_checkpoint(games)
    player._update_at_checkpoint(games)
    player._update_before_game(games)
    assert player.updates == [5, 7]

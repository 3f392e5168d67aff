"""The comparison of card players of bridge: the trainer `bridge_card_play`."""

from __future__ import annotations

import numpy as np
import pytest

from overtrick.config import job_file
from overtrick.core import UserError
from overtrick.distributed.workers import LocalPool
from overtrick.training.registry import JOBS, TRAINERS

CAREFUL, SEARCH = {"player": "careful"}, {"worlds": 2, "proposals": 30}


def finished(players, roles, opponents="careful", boards=6, **changes):
    """Return a trainer after all its iterations."""
    section = {"players": players, "roles": roles, "opponents": opponents, "boards": boards}
    job = {
        "trainer": "bridge_card_play", "game": "bridge", "stop": {"iterations": 2},
        "bridge_card_play": section, **changes,
    }  # fmt: skip
    parsed = job_file.parse(job, JOBS, "job")
    trainer = TRAINERS["bridge_card_play"].trainer(parsed, LocalPool())
    for _ in range(2):
        trainer.step()
    return trainer


def test_equal_players_have_equal_results():
    trainer = finished({"one": SEARCH, "same": SEARCH}, ["declarer", "duplicate"], boards=2)
    assert np.array_equal(trainer.results[..., 0], trainer.results[..., 1])
    for row in trainer.rows():
        assert row["difference_to_first"] in (None, 0)
        assert row["boards"] == 4
    assert not trainer.results[:, 1].any()  # duplicate against itself


def test_perfect_opponents_leave_no_trick_above_double_dummy():
    """A declarer wins at most, a defence concedes at least, the double-dummy tricks."""
    trainer = finished({"careful": CAREFUL}, ["declarer", "defenders"], "double_dummy")
    declarer, defence = trainer.results[:, 0, 0], trainer.results[:, 1, 0]
    assert (declarer <= trainer.perfect).all()
    assert (defence >= trainer.perfect).all()
    assert (declarer < trainer.perfect).any()
    rows = trainer.rows()
    assert [row["role"] for row in rows] == ["declarer", "defenders"]
    assert all(row["tricks"] <= 0 and row["points"] <= 0 for row in rows)
    level = trainer.contracts[:, 1]
    assert (level > 0).all()
    assert rows[0]["made"] == np.mean(declarer >= level + 6)
    assert rows[0]["double_dummy"] == np.mean(trainer.perfect >= level + 6)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"player": "careful", "worlds": 5}, "worlds is a key of player: search, not of careful"),
        ({"player": "rules", "goal": "made"}, "goal is a key of player: search, not of rules"),
        ({"rule_share": 0.5, "best_share": 0.5}, "they must be below 1"),
        ({"seconds": 0}, "greater than 0"),
        ({"calls": False, "signals": False}, "signals has no effect if calls is false"),
    ],
)
def test_keys_that_a_player_does_not_use_are_refused(config, message):
    section = {"players": {"one": config}}
    job = {"trainer": "bridge_card_play", "game": "bridge", "bridge_card_play": section}
    with pytest.raises(UserError, match=message):
        job_file.parse(job, JOBS, "job")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"roles": ["defenders", "defenders"]}, "roles names defenders twice: leave one out"),
        ({"roles": ["duplicate"], "opponents": "rules"}, "opponents has no effect if the only"),
        (
            {"roles": ["defenders"], "players": {"one": {"moves": 1}}},
            "players.one.moves has no effect if the only role is defenders",
        ),
    ],
)
def test_roles_without_effect_are_refused(changes, message):
    section = {"players": {"careful": CAREFUL}, **changes}
    job = {"trainer": "bridge_card_play", "game": "bridge", "bridge_card_play": section}
    with pytest.raises(UserError, match=message):
        job_file.parse(job, JOBS, "job")


def test_only_bridge_without_options_is_played():
    players = {"careful": CAREFUL}
    for game in ("leduc", {"name": "bridge", "seats": 2}):
        job = job_file.parse(
            {"trainer": "bridge_card_play", "game": game, "bridge_card_play": {"players": players}},
            JOBS,
            "job",
        )
        with pytest.raises(UserError, match="plays the game bridge without options"):
            TRAINERS["bridge_card_play"].validate(job)

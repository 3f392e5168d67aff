"""Liar's Dice against OpenSpiel's `liars_dice`: tree, information sets, values and NashConv."""

from __future__ import annotations

from functools import cache

import numpy as np
import pyspiel
import pytest
from open_spiel.python.algorithms import expected_game_score

import overtrick
from overtrick.games import registry
from overtrick.games.openspiel_tree import matched_information_state_strings, tabular_policy
from overtrick.solvers import cfr
from overtrick.solvers.extensive import best_response

SMALL = [(1, 3), (1, 4), (2, 2)]
"""Dice per seat and faces of a die."""


@cache
def twins_of(game_and_tree, dice, faces):
    """Return OpenSpiel's game, its tree, our tree, and OpenSpiel's string of each of our
    information sets."""
    name = f"liars_dice(numdice={dice},dice_sides={faces})"
    door, theirs = game_and_tree(f"openspiel/{name}")
    _, ours = game_and_tree("liars_dice", dice=dice, faces=faces)
    words = matched_information_state_strings(theirs, door.information_state_strings, ours)
    return pyspiel.load_game(name), theirs, ours, words


@pytest.mark.parametrize(("dice", "faces"), [(1, 6), (2, 3), *SMALL])
def test_the_tree_equals_openspiels_node_by_node(game_and_tree, dice, faces):
    _, theirs, ours, words = twins_of(game_and_tree, dice, faces)
    assert (ours.nodes, ours.infosets) == (theirs.nodes, theirs.infosets)
    assert len(set(words)) == ours.infosets
    if (dice, faces) == (1, 6):
        assert (ours.nodes, ours.infosets) == (294_883, 24_576)


@pytest.mark.parametrize(("dice", "faces"), SMALL)
def test_values_and_nash_conv_equal_openspiels(game_and_tree, some_strategies, rng, dice, faces):
    game, _, ours, words = twins_of(game_and_tree, dice, faces)
    for sigma in some_strategies(ours, rng, 2):
        policy = tabular_policy(words, ours.legal, sigma)
        values = expected_game_score.policy_value(game.new_initial_state(), [policy] * 2)
        assert best_response.expected(ours, sigma) == pytest.approx(values, abs=1e-9)
        gap = float(best_response.nash_conv_batch(ours, sigma[None])[0])
        assert gap == pytest.approx(pyspiel.nash_conv(game, policy), abs=1e-9)


def test_the_text_of_a_finished_game_has_the_dice_of_all_seats():
    game = overtrick.make("liars_dice", dice=2)
    shown, liar = registry.presentation(game), game.actions - 1
    text = shown.describe_deal(np.array([3, 2, 1, 0]), [(0, 2), (1, liar)])
    assert text == "seat 1 1x3, seat 2 liar; seat 1 had 3 4; seat 2 had 1 2"


def test_cfr_plus_solves_the_default_game(game_and_tree):
    game, _, ours, words = twins_of(game_and_tree, 1, 6)
    sigma = cfr.solve(ours, 100, cfr.CFR_PLUS)
    gap = float(best_response.nash_conv_batch(ours, sigma[None])[0])
    assert gap < 0.01
    theirs = pyspiel.nash_conv(game, tabular_policy(words, ours.legal, sigma))
    assert gap == pytest.approx(theirs, abs=1e-9)

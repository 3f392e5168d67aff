"""Engine of limit poker for many games at once: cards from a deck, actions on a betting tree."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.random import Generator

from overtrick.core import Array, Deals, Observations
from overtrick.games.observation_validation import check_limits, check_rows
from overtrick.games.poker import features
from overtrick.games.poker.betting_tree import BettingTree, build_betting_tree
from overtrick.games.poker.dealing import deal_missing_cards, write_visible_cards
from overtrick.games.poker.rules import CALL, VERBS, PokerRules
from overtrick.games.poker.showdown import settle, strength

MOST_CARDS = 32_767  # of a deck, whose cards are numbered by int16; far more than any tree can hold


@dataclass(slots=True)
class PokerState:
    """State of G poker games in progress."""

    cards: Array  # (G, C) hole cards seat by seat, then the board
    node: Array  # (G,) node of the betting tree
    strength: Array  # (G, S) hand strength of each seat at a showdown


class Poker:
    """Limit poker game with the given rules, of any size.

    A deal has C columns: the hole cards of seat 0, of seat 1, ..., then the board. Card c has rank
    c // suits. The subclass EnumerablePoker, for small games, gives each information set an index.
    Raises TypeError for invalid options, and UserError for options that the rules do not allow.

    fold: represent a card by its rank alone, without its suit. This is the default in games without
        flushes. The option has nothing to do with the action fold.
    ranks: number of ranks in the deck, instead of the number in the rules. Ranks are then named 1,
        2, ... from the lowest.
    view: the network inputs. `cards`, in all games: cards, and chips (Leduc), raises (hold'em) or
        the betting node (Kuhn, one-card). `strength`, in hold'em: the percentile of the cards'
        strength instead of the cards. `history`, in Leduc: ranks, seat and all actions so far, so
        that no two information sets have equal inputs while fold is true.

    Observation fields: hole cards; board cards, -1 before they are dealt; chips of the seat in the
    pot; chips of all other seats; betting round; node of the betting tree.
    """

    infosets: int | None = None
    default_view = "cards"

    def __init__(
        self,
        rules: PokerRules,
        fold: bool | None = None,
        ranks: int | None = None,
        view: str = "cards",
    ) -> None:
        if not (fold is None or isinstance(fold, bool)):
            raise TypeError(f"fold must be true or false, not {fold!r}")
        if fold and rules.best_five:
            raise TypeError("fold must be false: a flush tells suits apart")
        more = "strength" if rules.best_five else "history" if sum(rules.board) else None
        views = ("cards",) if more is None else ("cards", more)
        if view not in views:
            raise TypeError(f"view must be {' or '.join(views)}, not {view!r}")
        if ranks is not None:
            most = MOST_CARDS // rules.suits
            if type(ranks) is not int or not 1 <= ranks <= most:
                raise TypeError(f"ranks must be a number from 1 to {most:,}, not {ranks!r}")
            if ranks * rules.suits < rules.cards:
                least = -(-rules.cards // rules.suits)
                need = f"{rules.cards} cards are dealt"
                raise TypeError(f"ranks must be {least} or more, not {ranks}: {need}")
            if ranks != rules.ranks:
                names = tuple(str(rank) for rank in range(1, ranks + 1))
                rules = replace(rules, ranks=ranks, rank_names=names)
        self.rules = rules
        self.view = view
        self.deck = rules.ranks * rules.suits  # cards in the deck
        self.fold = not rules.best_five if fold is None else fold
        self.name = rules.name
        self.unit = rules.unit
        self.seats = len(rules.posts)
        self.actions = len(rules.actions)
        self.action_names = tuple(name for name, _ in rules.actions)
        self.observation_fields = (
            *_numbered("hole", rules.hole), *_numbered("board", max(1, sum(rules.board))),
            "own_chips", "other_chips", "round", "betting",
        )  # fmt: skip

    @cached_property
    def betting(self) -> BettingTree:
        """The betting tree of the rules; hold'em's takes a quarter of a second to build."""
        return build_betting_tree(self.rules)

    @cached_property
    def turned(self) -> Array:
        """Number of visible board cards (B,) at each node of the betting tree."""
        visible: Array = np.cumsum(self.rules.board)[self.betting.round]
        return visible

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.rules, self.fold, None, self.view)

    def policy_of_view(self, view: str, make: Callable[[Any], Any]) -> Any:
        """Build a policy for this game with another view.

        Nothing is converted, because observations and actions are the same in every view.
        """
        return make(type(self)(self.rules, self.fold, None, view))

    def rank(self, cards: Array) -> Array:
        """Return the ranks of cards, from 0; -1 (no card) stays -1."""
        return cards if self.fold else cards // self.rules.suits

    def card_name(self, card: int) -> str:
        """Return the name of a card, or "" for -1 (no card).

        If the game's option `fold` is true, `card` is a rank and the name is that of the rank.
        """
        if card < 0:
            return ""
        rank = self.rules.rank_names[int(self.rank(np.array(card)))]
        return rank if self.fold else rank + self.rules.suit_names[card % self.rules.suits]

    def card_names(self, cards: Array) -> str:
        """Return the names of cards (n,), separated by spaces; leave out -1 (no card)."""
        return " ".join(filter(None, map(self.card_name, cards.tolist())))

    def deal(self, games: int, rng: Generator) -> Deals:
        """Sample deals (G, C) of distinct cards.

        If the game's option `fold` is true, the deals contain the ranks of the cards.
        """
        return self._dealt(np.full((games, self.rules.cards), -1, np.int16), rng)

    def redeal(self, observations: Observations, rng: Generator) -> Deals:
        """Sample deals (R, C) that contain each row's own hole cards and visible board cards.

        All other cards are drawn without replacement from the rest of the deck.
        """
        hole, suits = self.rules.hole, self.rules.suits
        first = self.seats * hole  # column of the first board card
        cards = np.full((len(observations), self.rules.cards), -1, np.int16)
        own = observations.seat[:, None] * hole + np.arange(hole)
        np.put_along_axis(cards, own, observations.observation[:, :hole], axis=1)
        cards[:, first:] = observations.observation[:, hole : hole + self.rules.cards - first]
        if self.fold:  # give equal ranks different suits
            twins = [(cards[:, :c] == cards[:, [c]]).sum(axis=1) for c in range(cards.shape[1])]
            cards = np.where(cards < 0, -1, cards * suits + np.stack(twins, axis=1))
        return self._dealt(cards, rng)

    def _dealt(self, cards: Array, rng: Generator) -> Deals:
        """Replace each -1 in `cards` (G, C) by a random unused card; return the complete deals.

        `cards` contains cards with suits. If the game's option `fold` is true, the returned deals
        contain their ranks.
        """
        deal_missing_cards(cards, self.deck, rng)
        return cards // self.rules.suits if self.fold else cards

    def are_possible_deals(self, deals: Deals) -> Array:
        """Return (G,) bool: whether the deck holds the cards of each deal (G, C)."""
        kinds = self.deck // self.rules.suits if self.fold else self.deck
        copies = (deals[:, :, None] == deals[:, None, :]).sum(axis=2)
        known = (deals >= 0) & (deals < kinds)
        return (known & (copies <= (self.rules.suits if self.fold else 1))).all(axis=1)

    def start(self, deals: Deals) -> PokerState:
        """Return the state of G games at the root of the betting tree, for deals (G, C)."""
        node = np.zeros(len(deals), np.int32)
        return PokerState(deals, node, strength(self.rules, deals, self.rank(deals)))

    def observe(self, state: PokerState) -> Observations:
        """Return the observations of the seats to act in all games that are not over."""
        game = np.flatnonzero(self.betting.seat[state.node] >= 0)
        node = state.node[game]
        seat = self.betting.seat[node].astype(np.int64)
        seen, hole, turned = self.public_observations[node], self.rules.hole, self.turned[node]
        write_visible_cards(state.cards, game, seat, hole, self.seats * hole, turned, seen)
        return Observations(game, seat, seen, self.betting.legal[node], self._infosets(seen))

    def validated_observations(self, seen: Array) -> Observations:
        """Validate observations `seen` (R, K) and derive their seats and legal actions.

        Raises UserError for the first row that is impossible in this game.
        """
        hole, cards = self.rules.hole, self.card_fields
        last = (self.deck // self.rules.suits if self.fold else self.deck) - 1
        limits = {
            name: (0 if k < hole else -1, last)
            for k, name in enumerate(self.observation_fields[:cards])
        }
        limits["betting"] = (0, len(self.betting.seat) - 1)
        check_limits(self.observation_fields, seen, limits)
        node, known = seen[:, -1], seen[:, :cards]
        up = np.arange(cards - hole) < self.turned[node, None]
        twins = (known[:, :, None] == known[:, None, :]) & (known >= 0)[:, None, :]
        fit = (self.betting.seat[node] >= 0) & ((known[:, hole:] >= 0) == up).all(axis=1)
        fit &= (twins.sum(axis=2) <= (self.rules.suits if self.fold else 1)).all(axis=1)
        fit &= (seen[:, cards:] == self.public_observations[node, cards:]).all(axis=1)
        check_rows(self.observation_fields, seen, fit, "contradict each other")
        game, seat, seen = np.arange(len(seen)), self.betting.seat[node], seen.astype(np.int16)
        legal, infosets = self.betting.legal[node], self._infosets(seen)
        return Observations(game, seat.astype(np.int64), seen, legal, infosets)

    def _infosets(self, seen: Array) -> Array | None:
        """Return None, because this class does not give information sets an index.

        EnumerablePoker overrides this method: it returns the index (R,) of the information set of
        each observation in `seen` (R, K).
        """
        return None

    def step(self, state: PokerState, observations: Observations, action: Array) -> Array:
        """Play the actions `action` (R,) and return the points (G, S) that each seat gains.

        The points are 0 in games that have not ended. Raises ValueError for an illegal action,
        before the state is changed.
        """
        known = (action >= 0) & (action < self.actions)
        after = self.betting.after[state.node[observations.game], action * known]
        node = np.where(known, after, -1)
        if (node < 0).any():
            row = np.argmax(node < 0)
            raise ValueError(f"illegal action {action[row]} in game {observations.game[row]}")
        state.node[observations.game] = node
        over = self.betting.seat[node] < 0
        return self.won(state.strength, observations.game[over], node[over])

    def won(self, strength: Array, game: Array, end: Array) -> Array:
        """Return the points (G, S) won by each seat in games that have ended; 0 in other games.

        strength: (G, S) hand strengths at a showdown. game: (R,) the indices of the R ended games.
        end: (R,) the terminal node of each of these games in the betting tree.
        """
        gain = np.zeros(strength.shape)
        settle(game, end, self.betting.live, self.betting.chips, strength, gain)
        gain /= self.rules.chips_a_unit
        return gain

    def features(self, observations: Observations) -> Array:
        """Return (R, F) float32 network inputs, as listed in features.py."""
        seen = observations.observation
        if self.rules.best_five:
            by = features.card_features if self.view == "cards" else features.strength_features
            return by(self.rules, self.betting, seen)
        ranked = np.hstack([self.rank(seen[:, :2]), seen[:, 2:]])
        if self.view == "history":
            return features.history_features(self.rules, self.betting, ranked)
        return features.rank_features(self.rules, len(self.betting.seat), ranked)

    @property
    def card_fields(self) -> int:
        """Return the number of observation fields that are cards; they precede all other fields."""
        return len(self.observation_fields) - 4

    @property
    def card_features(self) -> int:
        """Return the number of features that depend only on cards; they precede all others."""
        return features.card_feature_count(self.rules, self.view)

    def privileged_features(self, observations: Observations, deals: Deals) -> Array:
        """Return `features` and, after them, the features that only a privileged critic has.

        The result is (R, F) float32. `deals`: (R, C) all cards of each row's game.
        """
        ranks = self.rank(deals)
        live = self.betting.live[observations.observation[:, -1]]
        hands = np.where(live, strength(self.rules, deals, ranks), -1)
        own = features.privileged_features(self.rules, observations, deals, ranks, hands)
        return np.hstack([self.features(observations), own])

    @cached_property
    def public_observations(self) -> Array:
        """Return the observation (B, K) at each betting node, with -1 in the columns of cards."""
        betting = self.betting
        own = np.take_along_axis(betting.chips, betting.seat[:, None].clip(0), axis=1)[:, 0]
        other = betting.chips.sum(axis=1) - own
        public = np.full((len(own), len(self.observation_fields)), -1, np.int16)
        public[:, -4:] = np.stack([own, other, betting.round, np.arange(len(own))], axis=1)
        return public

    @property
    def lowest_payoff(self) -> float:
        """Return the lowest payoff of a seat: minus the most chips that it can have in the pot."""
        return float(-self.betting.chips.max() / self.rules.chips_a_unit)

    @property
    def public_situations(self) -> int:
        """Return the number of coarse public states that `public_situation` distinguishes."""
        return 2 * len(self.rules.caps) * (1 + max(self.rules.caps))

    def public_situation(self, observations: Observations) -> Array:
        """Return the index (R,) of each row's coarse public state, as used by opponent models.

        The state is the round, the number of raises in the round, and whether there is a bet to
        call.
        """
        stage, node = observations.observation[:, -2:].astype(np.int64).T
        raised = self.betting.raised[node, stage]
        facing = self.betting.verb[node, VERBS.index(CALL)] >= 0
        return (stage * (1 + max(self.rules.caps)) + raised) * 2 + facing

    @property
    def column_seats(self) -> tuple[int, ...]:
        """Return the seat that sees each card of a deal; -1 for the board, which all seats see."""
        hole = tuple(seat for seat in range(self.seats) for _ in range(self.rules.hole))
        return (*hole, *(-1 for _ in range(self.rules.cards - len(hole))))

    def ends_with_showdown(self, actions: tuple[int, ...]) -> bool:
        """Return whether at least two seats have not folded after all actions of a game."""
        node = 0
        for action in actions:
            node = int(self.betting.after[node, action])
        return bool(self.betting.live[node].sum() > 1)

    def decode(self, seat: int, observation: Array) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the deal as the seat sees it, -1 for other cards, and all actions so far."""
        hole, board = np.split(observation[: self.card_fields].astype(int), [self.rules.hole])
        cards = np.full(self.rules.cards, -1)
        cards[seat * self.rules.hole : (seat + 1) * self.rules.hole] = hole
        cards[self.seats * self.rules.hole :] = board
        return tuple(cards.tolist()), self.betting.history[observation[-1]]

    def hand(self, observations: Observations) -> Array:
        """Return the names (R,) of hole cards: Q, or in hold'em 77, AKs (suited), T9o (offsuit)."""
        return self._hand_names[tuple(observations.observation[:, : self.rules.hole].T)]

    @cached_property
    def _hand_names(self) -> Array:
        """Return the label of every combination of hole cards, such as AKs for hold'em.

        The array has one axis for each hole card: in hold'em the label of cards a and b is at
        [a, b].
        """
        deck = self.rules.ranks * (1 if self.fold else self.rules.suits)
        names = []
        for cards in itertools.product(range(deck), repeat=self.rules.hole):
            ranks = sorted(self.rank(np.array(cards)).tolist(), reverse=True)
            suited = len({card % self.rules.suits for card in cards}) == 1
            end = "" if len(set(ranks)) == 1 else "s" if suited else "o"
            names.append("".join(self.rules.rank_names[rank] for rank in ranks) + end)
        return np.array(names).reshape((deck,) * self.rules.hole)

    def describe(self, seen: Array) -> str:
        """Return one observation (K,) as text: hole cards, board, and actions so far."""
        hole, board = map(self.card_names, np.split(seen[:-4], [self.rules.hole]))
        turned = f" on {board}" if board else ""
        actions = ", ".join(self.action_names[a] for a in self.betting.history[seen[-1]])
        return f"{hole}{turned} after {actions or 'nothing'}"


def _numbered(name: str, columns: int) -> tuple[str, ...]:
    """Return names of `columns` columns: name_1, name_2, ..., or `name` for a single column."""
    return (name,) if columns == 1 else tuple(f"{name}_{k}" for k in range(1, columns + 1))

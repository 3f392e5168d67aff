"""Trainer `league`: main agents, exploiters and past players (Vinyals et al. 2019).

| here | the paper |
|---|---|
| PPO on whole games | V-trace and an upgoing policy update, asynchronous |
| learners start at random or from `initial_model` | from supervised learning on human games |
| a share of points counts as beating | a share of games won |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator

from overtrick.core import Array, Trajectories, concat_columns, concatenate_trajectories
from overtrick.core.checkpoints import prefixed, unprefixed
from overtrick.core.games import ReportsWinners
from overtrick.distributed.workers import RngStream, WorkerPool, generator
from overtrick.evaluation.game_cache import two_seat_game
from overtrick.learners.weights import stack
from overtrick.policies.batched_networks import AssignedNetworks
from overtrick.policies.forward_pass import Weights
from overtrick.policies.model_kinds import MEMBERS
from overtrick.policies.network import network_policy
from overtrick.policies.rollout import play, random_seating
from overtrick.population import matchmaking
from overtrick.population.matchmaking import MatchmakingConfig, Players, Results
from overtrick.population.policy_population import PolicyPopulation
from overtrick.reports import metric_names
from overtrick.solvers import meta_solvers
from overtrick.solvers.extensive import best_response
from overtrick.solvers.extensive.meta_game import MetaGame
from overtrick.training import scores
from overtrick.training.adaptation.gradient_samples import diverged_games_metric, strategies
from overtrick.training.base_trainer import Metrics, register
from overtrick.training.equilibrium import league_job
from overtrick.training.equilibrium.league_job import LeagueJob
from overtrick.training.held_out_trainer import UnadaptedTrainer


@register(
    "league",
    LeagueJob,
    scores.final_negative_exploitability,
    scores.negative_exploitability_or_payoff,
)
class LeagueTrainer(UnadaptedTrainer[LeagueJob]):
    """Trainer of a league of networks: each plays both seats.

    In an iteration every learner plays games against opponents that are drawn before each game,
    and improves by PPO; the learners are shards. Then copies of learners join the past players,
    which never change. The model is main agent 0.
    """

    stateful = ()
    policy_name = "main"
    validate = staticmethod(league_job.check_league_job)

    def __init__(self, job: LeagueJob, pool: WorkerPool) -> None:
        super().__init__(job, pool)
        section = job.league
        self.count = section.main_agents + section.main_exploiters + section.league_exploiters
        rng = generator(job.seed, RngStream.INITIAL)
        self.initial_policy = section.initial_policy(
            self.game, job.game, "league", generator(job.seed, RngStream.INITIAL, self.count)
        )  # the streams before that of number `count` are those of the learners
        self.learners = [self._new_learner(r) for r in rng.spawn(self.count)]
        self._set_action_std()
        members = {n: v[None][:0] for n, v in self._network(0).items()}
        if section.random_players:
            members = section.initial_past_players(self.game, rng)
        self.past = pool.host(PolicyPopulation(members))
        # (P,) for a learner its own number, for a copy that of its original, then `count` for
        # random networks
        self.of_learner = np.append(
            np.arange(self.count), np.full(section.random_players, self.count)
        )
        self.age = np.zeros(self.count, np.int64)  # iterations since a learner joined or began
        self.trained = np.zeros(self.count, np.int64)  # iterations of each learner's weights
        self.results = Results(*np.zeros((4, self.count, len(self.of_learner))))

    def train_iteration(self, rng: Generator, progress: float) -> Metrics:
        """Train every learner against its opponents; then copies of some join the past players."""
        learn_rng, join_rng = rng.spawn(2)
        section, players, config = self.job.league, self._players(), self._matchmaking()
        networks = self._all_networks()
        share = self.results.points_share()
        opponents, training = [], []
        for k, learner in enumerate(self.learners):
            opponents.append((k, matchmaking.opponents(players, k, share[k], config)))
            done = progress if players.main[k] else self.age[k] / section.exploiter_iterations
            trains_policy = bool(self.trained[k] >= section.value_warmup_iterations)
            training.append((learner, section.learning_rate * (1 - done), trains_policy))
        common = (self.job.game, section, networks, progress)
        if section.game_shards == 1:
            shards = list(zip(opponents, training, strict=True))
            played = self.pool.map(_play_and_improve, common, shards, learn_rng)
        else:
            played = self._play_in_shards(common, opponents, training, learn_rng)
        self.learners = [state for state, *_ in played]
        results = np.stack([each for _, each, *_ in played], axis=1)  # (4, L, P)
        unit = "wins minus losses" if isinstance(self.game, ReportsWinners) else self.game.unit
        payoffs = zip(self.names(), results[0].sum(axis=1) / section.games, strict=True)
        means = {metric_names.mean_name(name, unit): float(v) for name, v in payoffs}
        between = results[:, :, : self.count].swapaxes(1, 2).copy()  # as the other learner sees it
        between[0] *= -1
        results[:, :, : self.count] += between
        self.results = Results(*(matchmaking.RESULT_DECAY * np.stack(self.results) + results))
        self.age, self.trained = self.age + 1, self.trained + 1
        self._add_past_players(players, join_rng)
        self._set_action_std()
        diverged_games, decisions = np.sum([counts for _, _, counts, _ in played], axis=0)
        *_, main_metrics = played[0]
        return {
            **means,
            **main_metrics,
            metric_names.DECISIONS: float(decisions),
            **diverged_games_metric(self.game, int(diverged_games)),
            "past_players": float(len(self.of_learner) - self.count),
        }

    def _set_action_std(self) -> None:
        """Set the standard deviations of the learners' actions for the next iteration."""
        section = self.job.league
        self.learners = [
            section.with_scheduled_std(learner, self.game, self.progress, "policy.")
            for learner in self.learners
        ]

    def _play_in_shards(
        self,
        common: Any,
        opponents: list[tuple[int, Array]],
        training: list[tuple[dict[str, Array], float, bool]],
        rng: Generator,
    ) -> list[_Trained]:
        """Play the games of every learner in several shards, then improve the learners.

        `common`: as in `_play_games`. `opponents`: the number of each learner, and the
        probabilities (P,) of its opponents. `training`: for each learner, the arguments `state`,
        `learning_rate` and `trains_policy` of `_improve`.
        """
        section = self.job.league
        play_rng, learn_rng = rng.spawn(2)
        least, left = divmod(section.games, section.game_shards)
        counts = [least + (k < left) for k in range(section.game_shards)]
        shards = [(count, *each) for each in opponents for count in counts]
        played = self.pool.map(_play_games, common, shards, play_rng)
        first = range(0, len(played), len(counts))
        games = [_join(played[k : k + len(counts)]) for k in first]
        choice, _, _, progress = common
        learners = [(each, *rest) for each, rest in zip(games, training, strict=True)]
        return self.pool.map(_improve, (choice, section, progress), learners, learn_rng)

    def names(self) -> list[str]:
        """Return the names of all learners, such as main_agent_0."""
        section = self.job.league
        roles = {
            "main_agent": section.main_agents,
            "main_exploiter": section.main_exploiters,
            "league_exploiter": section.league_exploiters,
        }
        return [f"{role}_{k}" for role, count in roles.items() for k in range(count)]

    def _new_learner(self, rng: Generator) -> dict[str, Array]:
        """Return the state of a learner with the initial policy, or with random weights."""
        section = self.job.league
        learner = section.learner(self.game, section.learning_rate, rng)
        if self.initial_policy is not None:
            learner.theta = self.initial_policy
        return learner.state()

    def _network(self, learner: int) -> Weights:
        """Return the weights of a learner's policy network."""
        return unprefixed("policy", self.learners[learner])

    def _all_networks(self) -> Weights:
        """Return the weights (L + K, ...) of all learners, then of all past players."""
        current = stack([self._network(k) for k in range(self.count)])
        return concat_columns([current, self.past.state()])

    def _players(self) -> Players:
        section = self.job.league
        return Players(self.count, self.of_learner, section.main_agents, section.main_exploiters)

    def _matchmaking(self) -> MatchmakingConfig:
        section = self.job.league
        return MatchmakingConfig(
            section.self_play_share, section.forgotten_share, section.winning_share,
            section.priority_power,
        )  # fmt: skip

    def _add_past_players(self, players: Players, rng: Generator) -> None:
        """Add copies of some learners to the past players; reset some exploiters.

        A main agent is copied every `snapshot_interval` iterations. An exploiter is copied when it
        beats all its opponents, but not before `snapshot_interval` iterations; at the latest after
        `exploiter_iterations`.
        """
        section, config = self.job.league, self._matchmaking()
        share, count = self.results.points_share(), len(players.learner)
        for k, learner_rng in enumerate(rng.spawn(self.count)):
            main = bool(players.main[k])
            if main:
                copied = self.iteration % section.snapshot_interval == 0
            else:
                played = self.results.played[k, :count]
                beats_all = matchmaking.beats_all(players, k, share[k, :count], played, config)
                copied = self.age[k] >= section.exploiter_iterations
                copied |= beats_all and self.age[k] >= section.snapshot_interval
            if not copied:
                continue
            self.past.call("add", self._network(k))
            self.of_learner = np.append(self.of_learner, k)
            # the copy inherits the results against its original
            results = np.stack(self.results)
            results = np.append(results, results[:, :, [k]], axis=2)
            self.age[k] = 0
            reset = players.exploits_main[k] or learner_rng.random() < section.reset_probability
            if reset and not main:
                if section.exploiter_start == "main_agent":
                    self.learners[k], self.trained[k] = self.learners[0], self.trained[0]
                else:
                    self.learners[k], self.trained[k] = self._new_learner(learner_rng), 0
                results[:, k, :], results[:, :, k] = 0, 0
            self.results = Results(*results)

    def evaluate(self) -> Metrics:
        """Return the exploitability of main agent 0, and of the Nash mixture of all players.

        The mixture is an equilibrium of the meta-game in which each seat draws a learner or past
        player before the game. Main agent 0 is measured in games with a tree and in
        games evaluated by walks, the mixture only in games with a tree. Also return payoffs against
        held-out opponents.
        """
        return super().evaluate() | self._mixture_exploitability()

    def _mixture_exploitability(self) -> Metrics:
        if self.tree is None:
            return {}
        meta_game = MetaGame(self.tree)
        for sigma in strategies(self.game, self.tree, self._all_networks()):
            meta_game.add(sigma)
        sigma = meta_game.equivalent_strategy(meta_solvers.nash(meta_game.payoffs, 0))
        name = metric_names.gap_name("league_mixture", self.game.unit)
        return {name: best_response.exploitability(self.tree, sigma)}

    def model(self) -> dict[str, Array]:
        """Return the networks of main agent 0 (`policy`) and of all past players (`member`)."""
        return {
            **prefixed("policy", self._network(0)),
            **prefixed(MEMBERS, self.past.state()),
        }

    @staticmethod
    def rebuild_model(job: LeagueJob, weights: Mapping[str, Array]) -> Any:
        """Return the policy of main agent 0 of a stored model."""
        game, _ = two_seat_game(job.game)
        return network_policy(game.features, unprefixed("policy", weights))

    def state(self) -> dict[str, Array]:
        """Return all learners and past players and the results of their games."""
        learners = {f"learner_{k}": state for k, state in enumerate(self.learners)}
        return {
            **super().state(),
            **{n: v for name, state in learners.items() for n, v in prefixed(name, state).items()},
            **prefixed("past", self.past.state()),
            **prefixed("results", {n: v.copy() for n, v in self.results._asdict().items()}),
            "of_learner": self.of_learner.copy(),
            "age": self.age.copy(),
            "trained": self.trained.copy(),
            **prefixed("initial", self.initial_policy or {}),
        }

    def load(self, state: Mapping[str, Array]) -> None:
        """Restore all learners and past players and the results of their games."""
        super().load(state)
        section, learners = self.job.league, []
        for k in range(self.count):
            learner = section.learner(self.game, section.learning_rate, np.random.default_rng(0))
            learner.load(unprefixed(f"learner_{k}", state))  # raises if the networks do not fit
            learners.append(learner.state())
        self.learners = learners
        self.past.load(unprefixed("past", state))
        self.results = Results(**unprefixed("results", state))
        self.of_learner, self.age = state["of_learner"].copy(), state["age"].copy()
        self.trained = state["trained"].copy()
        # the stored run may have changed since the start
        self.initial_policy = unprefixed("initial", state) or None
        self._set_action_std()  # the resumed job may have another number of iterations


class _Games(NamedTuple):
    """Games of one learner in an iteration."""

    batch: Trajectories  # the learner's decisions
    results: Array  # (4, P) results against each player, in the order of Results
    counts: Array  # (2,) games whose simulation diverged, and decisions of all seats


_Trained = tuple[dict[str, Array], Array, Array, dict[str, float]]
"""State of a learner after an iteration, results and counts of its games, and its metrics."""


def _play_games(rng: Generator, common: Any, count: int, number: int, probability: Array) -> _Games:
    """Play `count` games of one learner in random seats.

    `common`: the tuple (game, section `league`, weights (P, ...) of all P players, share of
    training done). `number`: the learner's index among the players. `probability` (P,): of its
    opponents; one is drawn for each game.
    """
    choice, section, networks, progress = common
    game = section.shaped(two_seat_game(choice)[0], progress)
    seat_rng, opponent_rng, play_rng = rng.spawn(3)
    opponent = opponent_rng.choice(len(probability), count, p=probability)
    seating = random_seating(count, seat_rng)
    learner_seat = seating.argmin(axis=1)  # the seat whose result counts
    if section.train_both_seats:
        seating[opponent == number] = 0
    learner = network_policy(game.features, {n: v[number] for n, v in networks.items()})
    both = (learner, AssignedNetworks(game.features, networks, opponent))
    played = play(game, both, count, play_rng, seating, [0])
    points = played.outcome[np.arange(count), learner_seat]
    counted = (points, np.abs(points), points != 0, np.ones(len(points)))
    results = [np.bincount(opponent, each, minlength=len(probability)) for each in counted]
    counts = np.array([played.diverged_games, played.decision_count])
    return _Games(played.batch, np.stack(results), counts)


def _join(parts: Sequence[_Games]) -> _Games:
    """Join the games of one learner that were played in several shards."""
    batches, results, counts = zip(*parts, strict=True)
    totals = [np.sum(each, axis=0) for each in (results, counts)]
    return _Games(concatenate_trajectories(batches), *totals)


def _improve(
    rng: Generator,
    common: Any,
    games: _Games,
    state: dict[str, Array],
    learning_rate: float,
    trains_policy: bool,
) -> _Trained:
    """Improve a learner by PPO on its games.

    `common`: the tuple (game, section `league`, share of training done). `state`: of the learner.
    `trains_policy`: if False, only the critic learns.
    """
    choice, section, progress = common
    learn_rng, new_rng = rng.spawn(2)
    game = section.shaped(two_seat_game(choice)[0], progress)
    learner = section.learner(game, learning_rate, new_rng)
    learner.load(state)
    learner.optimizer.step_size = learning_rate
    metrics = (learner.learn if trains_policy else learner.learn_values)(games.batch, learn_rng)
    return learner.state(), games.results, games.counts, metrics


def _play_and_improve(
    rng: Generator,
    common: Any,
    opponents: tuple[int, Array],
    training: tuple[dict[str, Array], float, bool],
) -> _Trained:
    """Play all games of a learner and improve it by them, on one worker.

    `common`: as in `_play_games`. `opponents`, `training`: of the learner, as in `_play_in_shards`.
    """
    choice, section, _, progress = common
    # both spawn from one generator: runs give the same results as before `game_shards` existed
    games = _play_games(rng, common, section.games, *opponents)
    return _improve(rng, (choice, section, progress), games, *training)

"""Network that reads the finished games of a match and returns a strategy for the next game.

An end observation is all that a seat knows at the end of a game: its cards, all actions, its
payoff, and the cards that it is shown (see `evaluation/board/end_observations.py`). The input is
the number of games with each of D end observations, in no order. Two kinds of units read it, and
both depend on these numbers, not only on their ratios:

- Evidence: each of H heads sums a learned vector (K,) over the games and takes the softmax of the
  sum, as the posterior over K hypotheses about an opponent sums their log-likelihoods.
- Attention: each of Q learned queries averages learned values (V,) over the games by the softmax of
  learned scores. Games with equal observations have equal scores, so they are counted, not
  repeated. One more element of value 0 and score 0 stands for no game.

Hidden layers with residual connections and layer normalisation without parameters (Ba et al. 2016)
follow, then logits at all information sets of a game tree.

| here | RL^2 (Duan et al. 2016) |
|---|---|
| games are counted by observation, in no order | a sequence of observations, actions and rewards |
| evidence adds up linearly | gated recurrent units |
| one output for each information set | the observation of the decision is an input |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.random import Generator

from overtrick.core import Array, Game, UserError
from overtrick.core.lazy_modules import torch
from overtrick.learners.weights import Params
from overtrick.policies import model_kinds
from overtrick.policies.forward_pass import Weights, masked_log_softmax, tensors
from overtrick.policies.tabular import TabularPolicy
from overtrick.solvers.extensive import tree

if TYPE_CHECKING:
    from torch import Tensor

STORED = "match"  # prefix of the weights in stored models
EVIDENCE_SCALE = 4.0  # of the softmax of the evidence
COUNT_SCALE = 0.25  # of the logarithm of the attention's total weight
INITIAL_STD = 0.1  # of evidence and scores
INITIAL_VALUE_STD = 0.5  # of the attention's values
OUTPUT_SCALE = 0.1  # of the initial weights of the output layer


@dataclass(frozen=True)
class MatchNetworkSizes:
    """Numbers of units of a match network."""

    heads: int  # H, of the evidence
    hypotheses: int  # K, of each head
    queries: int  # Q, of the attention
    values: int  # V, averaged by each query
    hidden: int  # units of each hidden layer


def match_weight_shapes(
    sizes: MatchNetworkSizes, observation_count: int, shape: tuple[int, ...]
) -> dict[str, tuple[int, ...]]:
    """Return the shapes of a match network's weights by name.

    `observation_count`: number D of end observations. `shape`: (N, A) of a strategy.
    """
    evidence, values = sizes.heads * sizes.hypotheses, sizes.queries * sizes.values
    inputs, hidden, outputs = evidence + values + sizes.queries, sizes.hidden, int(np.prod(shape))
    return {
        "evidence": (observation_count, sizes.heads, sizes.hypotheses),
        "scores": (observation_count, sizes.queries),
        "values": (observation_count, sizes.queries, sizes.values),
        "w0": (inputs, hidden),
        "b0": (hidden,),
        "w1": (hidden, hidden),
        "b1": (hidden,),
        "w2": (hidden, outputs),
        "b2": (outputs,),
    }


def initial_match_weights(
    sizes: MatchNetworkSizes, observation_count: int, shape: tuple[int, ...], rng: Generator
) -> Weights:
    """Draw float32 initial weights of a match network; the arguments are as above."""
    shapes = match_weight_shapes(sizes, observation_count, shape)
    stds = {
        "evidence": INITIAL_STD,
        "scores": INITIAL_STD,
        "values": INITIAL_VALUE_STD,
        "w0": 1 / np.sqrt(shapes["w0"][0]),
        "w1": 1 / np.sqrt(sizes.hidden),
        "w2": OUTPUT_SCALE / np.sqrt(sizes.hidden),
    }
    return {
        name: rng.normal(0, stds[name], each).astype(np.float32)
        if name in stds
        else np.zeros(each, np.float32)
        for name, each in shapes.items()
    }


def match_log_probs(params: Params, counts: Tensor, legal: Tensor) -> Tensor:
    """Return the log-probabilities of all actions in the next game of M matches; -inf if illegal.

    The result is (M, N, A), for A actions at N information sets. `counts` (M, D) float32: number of
    games with each end observation. `legal`: (N, A) bool.
    """
    matches, (_, queries, _) = len(counts), params["values"].shape
    totals = torch.tensordot(counts, params["evidence"], dims=1)  # (M, H, K)
    evidence = EVIDENCE_SCALE * totals.softmax(dim=-1).reshape(matches, -1)
    weight = params["scores"].exp()
    total = counts @ weight  # (M, Q)
    weighted = (weight[:, :, None] * params["values"]).reshape(len(weight), -1)
    mean = (counts @ weighted).reshape(matches, queries, -1) / (1 + total[:, :, None])
    inputs = [evidence, mean.reshape(matches, -1), COUNT_SCALE * total.log1p()]
    hidden = _normalised(torch.cat(inputs, dim=-1) @ params["w0"] + params["b0"]).relu()
    hidden = hidden + (hidden @ params["w1"] + params["b1"]).relu()
    logits = _normalised(hidden) @ params["w2"] + params["b2"]
    return masked_log_softmax(logits.reshape(matches, *legal.shape), legal)


def match_strategies(weights: Weights, counts: Array, legal: Array) -> Array:
    """Return a strategy (M, N, A) for the next game of each of M matches.

    `counts` (M, D): number of games with each end observation. `legal`: (N, A) bool.
    """
    with torch.inference_mode():
        seen = torch.as_tensor(counts, dtype=torch.float32)
        logs = match_log_probs(tensors(weights), seen, torch.as_tensor(legal))
        return logs.double().exp().numpy(force=True)


def _normalised(rows: Tensor) -> Tensor:
    """Normalise each row to mean 0 and variance 1."""
    return torch.nn.functional.layer_norm(rows, rows.shape[-1:])


def _load_stored(weights: model_kinds.StoredWeights, game: Game) -> TabularPolicy:
    """Build the policy of a stored match network before the first game of a match.

    Raises UserError if the network does not fit the game.
    """
    arrays, legal = weights.under(STORED), tree.build(game).legal
    shapes = {name: array.shape for name, array in arrays.items()}
    try:
        observations, heads, hypotheses = shapes["evidence"]
        _, queries, values = shapes["values"]
        sizes = MatchNetworkSizes(heads, hypotheses, queries, values, *shapes["b0"])
        fits = shapes == match_weight_shapes(sizes, observations, legal.shape)
    except (KeyError, TypeError, ValueError):
        fits = False
    if not fits:
        raise UserError(
            f"the network in {weights.source} does not fit {game.name}, which has {legal.shape[0]} "
            f"information sets and {legal.shape[1]} actions, or is damaged: train it again"
        )
    counts = np.zeros((1, len(arrays["scores"])))
    return TabularPolicy(match_strategies(arrays, counts, legal)[0])


model_kinds.register(
    model_kinds.ModelKind(lambda weights: bool(weights.under(STORED)), _load_stored)
)

"""Values and best responses in a phantom game by nashbench, of uniform play and of a random policy.

Argument: the game's name in nashbench. Prints a line of JSON for each policy. An H200 needs 25
seconds for both, compilation included; one core of a processor needs two hours.

tests/oracles/test_phantom.py has the results, and the same random policy.
"""

import json
import sys

import jax.numpy as jnp
import nashbench
import numpy as np

CELLS, SEED = 9, 20261127
(name,) = sys.argv[1:]
# a random number for each attempt's number, cell and failure, and each action
table = jnp.asarray(np.random.default_rng(SEED).integers(0, 2**16, (CELLS, CELLS, 2, CELLS)))


def uniform(_, legal):
    """Return the same probability for every legal action."""
    return legal.astype(jnp.float32) / legal.sum().astype(jnp.float32)


def own_marks(observation, seat):
    """Return (9,) whether a seat's own mark is on each cell."""
    known = observation[2 : -CELLS * CELLS]
    if name.startswith("phantom_ttt"):
        return known.reshape(3, CELLS)[2 - seat] > 0.5
    return known.reshape(CELLS, 9)[:, 5 - 2 * seat] > 0.5


def random_policy(observation, legal):
    """Return probabilities by a hash of the seat and its attempts.

    They are multiples of 1/64, which 32 bits hold exactly: 1 to 7 of them for each legal action,
    and the rest for the first one.
    """
    seat = jnp.where(observation[1] > 0.5, 1, 0)
    tried = observation[-CELLS * CELLS :].reshape(CELLS, CELLS) > 0.5
    own = jnp.where(seat == 1, own_marks(observation, 1), own_marks(observation, 0))
    picked = jnp.where(own[None, :, None], table[:, :, 0], table[:, :, 1])
    total = jnp.where(tried[:, :, None], picked, 0).sum((0, 1))
    mixed = (total + seat * 7919) % 2**16 * 40503 % 2**16
    weights = jnp.where(legal, 1 + mixed % 7, 0).at[jnp.argmax(legal)].set(0)
    weights = weights.at[jnp.argmax(legal)].set(64 - weights.sum())
    return weights.astype(jnp.float32) / 64


game = nashbench.make(name)
for label, policy in (("uniform", uniform), ("random", random_policy)):
    found = nashbench.evaluate(game, policy)
    line = {
        "policy": label,
        "values": found.profile_values,
        "best_responses": found.best_response_values,
    }
    print(json.dumps(line), flush=True)

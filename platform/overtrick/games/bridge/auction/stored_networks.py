"""Load the networks of stored bidding models, and apply them to observations.

A bidding model has a call network (the policy network, over the 38 calls), a value network, or
both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from overtrick.core import Array, Observations, UserError, select_rows
from overtrick.core.checkpoints import unprefixed
from overtrick.games.bridge.auction import network_bidder, network_inputs
from overtrick.games.bridge.auction import observation as obs
from overtrick.games.bridge.auction.network_bidder import BiddingNetwork
from overtrick.games.bridge.auction_rules import CALLS
from overtrick.games.bridge.system import loader
from overtrick.games.bridge.system.loader import System
from overtrick.games.spec import ModelAnswers
from overtrick.policies.forward_pass import ACTIVATIONS
from overtrick.policies.network_sizes import check_layers

OPPONENTS_SYSTEM = "natural"  # system of the other side when a model answers observations


def load_networks(
    weights: Mapping[str, Array], job: Mapping[str, Any], folder: str
) -> tuple[BiddingNetwork | None, BiddingNetwork | None]:
    """Load the call network and the value network of a stored model; None for a missing network.

    weights: the arrays of both networks by name. job: settings of the training run, as plain data.
    folder: the model's folder, for error messages. Raises UserError for a damaged network, and for
    a network with wrong numbers of inputs or outputs.
    """
    return load_network(weights, "calls", job, folder), load_network(weights, "imps", job, folder)


def load_network(
    weights: Mapping[str, Array], name: str, job: Mapping[str, Any], folder: str
) -> BiddingNetwork | None:
    """Load one network of a stored model; None if the model does not have it.

    name: `calls` for the call network or `imps` for the value network. The other arguments and
    errors are as in `load_networks`.
    """
    own = unprefixed(name, weights)
    if not own:
        return None
    check_network(own, name, f"the network of {name} in {folder}")
    section = job_value(job, folder, "network", dict)
    activation, bfloat16 = section.get("activation"), section.get("bfloat16")
    if activation not in ACTIVATIONS or not isinstance(bfloat16, bool):
        raise UserError(f"{folder}/model.json is damaged: network needs activation and bfloat16")
    return BiddingNetwork(own, activation, bfloat16)


def networks_of_model(
    weights: Mapping[str, Array], names: Mapping[str, str]
) -> dict[str, dict[str, Array]]:
    """Return the arrays of each network of a model, by kind, without their prefixes.

    weights: the arrays of the model. names: maps the kind of each network, `calls` or `imps`, to
    the prefix of its arrays. Raises UserError unless the networks have the inputs and outputs of
    their kinds.
    """
    found = {kind: unprefixed(name, weights) for kind, name in names.items()}
    for kind, own in found.items():
        check_network(own, kind, f"the network of {names[kind]} of the model")
    return found


def check_network(weights: Mapping[str, Array], kind: str, network: str) -> None:
    """Raise UserError unless a network has the inputs and outputs of its kind.

    weights: the arrays of the network by name. kind: `calls` or `imps`. network: names the network
    in errors.
    """
    width = len(weights["w0"]) if "w0" in weights and weights["w0"].ndim else 0
    inputs = network_inputs.WIDTHS[network_inputs.inputs_of_width(width) or "features"]
    check_layers(weights, inputs, network_bidder.OUTPUT_WIDTHS[kind], network, "networks that bid")


def load_system(job: Mapping[str, Any], folder: str) -> System:
    """Load the bidding system with which a stored model was trained.

    job: settings of the training run. folder: the model's folder, for error messages. Raises
    UserError if the system's rules have changed since the training.
    """
    system = loader.load(job_value(job, folder, "system", str))
    versions = job_value(job, folder, "system_version", dict)
    check_system_version(versions, system, f"the model in {folder}")
    return system


def check_system_version(versions: Mapping[str, str], system: System, taught: str) -> None:
    """Raise UserError if a bidding system's rules have changed since a network was trained.

    Changed rules would change the network's input features. versions: fingerprint of the rules at
    the time of training, by name of the bidding system. taught: description of the trained model
    or run for the error message.
    """
    if not isinstance(versions, Mapping) or versions.get(system.name) != loader.fingerprint(system):
        raise UserError(
            f"the rules of {system.name} have changed since {taught} was trained: train it again"
        )


def job_value(job: Mapping[str, Any], folder: str, key: str, kind: type) -> Any:
    """Return a setting of the training run of a stored model.

    job: settings of the training run. folder: the model's folder, for the error message. key: name
    of the setting. kind: its type. Raises UserError if it is missing or has another type.
    """
    if not isinstance(job.get(key), kind):
        raise UserError(f"{folder}/model.json is damaged, or not of a bidder: it has no {key}")
    return job[key]


def answers(
    weights: Mapping[str, Array], job: Mapping[str, Any], folder: str
) -> ModelAnswers | None:
    """Return the inference function of a stored bidding model; None if it has no bidding network.

    The function maps R observations to an array (R, 38) with a number for each call. The numbers
    depend on the networks that the model has:

    - only a call network: the network's probability of each legal call
    - both networks: the action probabilities of `NetworkBidder`, 1 for the chosen call
    - only a value network: the expected IMPs of each legal call, NaN for other calls

    The arguments are as in `load_networks`. Calls of the model's opponents are interpreted by
    OPPONENTS_SYSTEM. Raises UserError for a damaged model.
    """
    calls, imps = load_networks(weights, job, folder)
    if calls is None and imps is None:
        return None
    ours, theirs = load_system(job, folder), loader.load(OPPONENTS_SYSTEM)

    def answer_side(observations: Observations, ns: System, ew: System) -> Array:
        assert observations.legal is not None
        if calls is not None:
            bidder = network_bidder.NetworkBidder(ns, ew, calls, imps)
            policy = bidder.call_probabilities if imps is None else bidder.probs
            return policy(observations)
        assert imps is not None
        observation, legal = observations.observation, observations.legal
        return network_bidder.expected_imps(imps, observation, legal, ns, ew)

    def answer(observations: Observations) -> Array:
        found = np.empty((len(observations), len(CALLS)))
        north = observations.observation[:, obs.SEAT] % 2 == 0
        for rows, (ns, ew) in ((north, (ours, theirs)), (~north, (theirs, ours))):
            if rows.any():
                found[rows] = answer_side(select_rows(observations, rows), ns, ew)
        return found

    return ModelAnswers("imps" if calls is None else "probabilities", tuple(CALLS), answer)

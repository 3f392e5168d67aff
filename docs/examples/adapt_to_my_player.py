"""Train a model that adapts in Leduc, then let it adapt to a player of your own."""

import numpy as np

import overtrick as ot


def calls_or_checks(observations):
    """Never raise, never fold."""
    allowed = observations.legal & np.array([True, False, False, True])  # call, check
    return allowed / allowed.sum(axis=1, keepdims=True)


me = ot.FunctionPolicy(calls_or_checks)

if __name__ == "__main__":
    run = ot.train("leduc_meta", "stop.iterations=20")  # the 80 of the job adapt better
    best = ot.best_response("leduc", me).mean
    for step, policy in enumerate(ot.load(run.folder.path).adapt(me, steps=3, games=200)):
        won = ot.match("leduc", policy, me, boards=10_000)
        print(f"after {step} steps: {won.mean:+.2f} big blinds a game, of at most {best:+.2f}")

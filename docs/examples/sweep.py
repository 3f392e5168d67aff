"""Train coevolution on Kuhn poker with two step sizes and two seeds, and rank the trials."""

import overtrick as ot

job = {
    "trainer": "coevolve",
    "game": "kuhn",
    "stop": {"iterations": 30},
    "search": {"coevolve.step_size": {"grid": [0.2, 0.5]}, "seed": {"grid": [0, 1]}},
}

if __name__ == "__main__":
    for row in ot.sweep(job).rows:
        print({name: row[name] for name in ("coevolve.step_size", "seed", "score")})

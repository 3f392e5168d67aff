"""Train PPO against the champion of Leduc and compare its payoff with an exact best response."""

import overtrick as ot

job = {
    "trainer": "exploit",
    "game": "leduc",
    "stop": {"iterations": 60},
    "exploit": {"opponent": "champion:leduc", "eval_interval": 20},
}

if __name__ == "__main__":
    run = ot.train(job)
    best = ot.best_response("leduc", "champion:leduc").mean
    won = run.rows[0]["steps"][-1]
    print(f"PPO wins {won:+.3f} big blinds a game, a best response {best:+.3f}")

"""Play a million random games of limit hold'em and count the games per second."""

import time

import overtrick as ot

ot.play("holdem", ["random", "random"], games=1000)  # compiles the kernels
start = time.perf_counter()
games = 0
while games < 1_000_000:
    rollout = ot.play("holdem", ["random", "random"], games=100_000, seed=games)
    games += len(rollout.payoff)
seconds = time.perf_counter() - start
print(f"{games / seconds:,.0f} games a second; the last game paid {rollout.payoff[-1]}")

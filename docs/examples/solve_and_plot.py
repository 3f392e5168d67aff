"""Solve Leduc poker with two regret minimisers and plot their exploitability."""

import matplotlib.pyplot as plt

import overtrick as ot

measure_at = [1, 3, 10, 30, 100, 300, 1000]
for plan in ("cfr+", "dcfr"):
    solution = ot.solve("leduc", plan, iterations=1000, measure_at=measure_at)
    plt.loglog(list(solution.history), list(solution.history.values()), label=plan)
    print(f"{plan}: exploitability {solution.exploitability:.2g} big blinds a game")

plt.xlabel("iterations")
plt.ylabel("exploitability (big blinds a game)")
plt.legend()
plt.savefig("exploitability.png")

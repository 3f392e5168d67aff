"""Look-ahead search: expectimax, Monte Carlo tree search, sampled deals, local best response."""

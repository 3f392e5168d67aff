"""Search during play: expectimax, Monte Carlo tree search, PIMC, local best response."""

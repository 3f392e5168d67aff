"""Look-ahead search: expectimax, MCTS, perfect-information Monte Carlo, local best response."""

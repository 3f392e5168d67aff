"""Evolution: a genetic algorithm on populations of networks, and evolution strategies."""

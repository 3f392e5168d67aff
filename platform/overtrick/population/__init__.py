"""Evolution: a genetic algorithm on stacked weights, and evolution strategies."""

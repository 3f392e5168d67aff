"""Evolution: a genetic algorithm on stacked network weights, and evolution strategies."""

"""Our games and networks inside RLlib, and RLlib's algorithms as learners."""

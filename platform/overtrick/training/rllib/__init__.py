"""Trainer that runs an algorithm of RLlib on this package's games."""

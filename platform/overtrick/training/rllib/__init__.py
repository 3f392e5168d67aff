"""Trainer that runs an algorithm of RLlib on our games."""

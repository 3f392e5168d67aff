"""Sweeps over variants of one job: grid and random search, ASHA, population based training."""

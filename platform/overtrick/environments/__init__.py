"""Adapters of this project's games: Gymnasium and PettingZoo environments, and OpenSpiel games."""

"""Adapters of our games: Gymnasium and PettingZoo environments, and OpenSpiel games."""

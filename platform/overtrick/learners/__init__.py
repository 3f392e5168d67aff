"""Algorithms: batches in, numbers out. None of them imports a game."""

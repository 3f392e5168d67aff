"""Trainers of models that adapt to an opponent, and their training opponents."""

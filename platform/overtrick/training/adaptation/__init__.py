"""Trainers of models that adapt to an opponent, and the opponents they are trained against."""

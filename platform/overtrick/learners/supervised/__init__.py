"""Supervised learners from labelled examples: behaviour cloning, classifiers, opponent models."""

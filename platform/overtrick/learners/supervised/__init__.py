"""Learners from labelled examples: behaviour cloning, classifiers, opponent models."""

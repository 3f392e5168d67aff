"""Trainers, a folder for each family: what is trained, against whom, and when it is measured."""

"""Trainers, one folder for each family: training loops, their opponents and their evaluation."""

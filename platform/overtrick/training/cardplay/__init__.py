"""Trainers of bridge declarers: Q-tables, DQN, PIMC."""

"""Trainers of bridge declarers: Q-tables, DQN, and perfect-information Monte Carlo search."""

"""Trainers of bridge declarers: Q-tables, DQN, perfect-information Monte Carlo."""

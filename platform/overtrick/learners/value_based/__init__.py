"""Learners of action values: tables, DQN, DRON, NFSP, and their replay buffers."""

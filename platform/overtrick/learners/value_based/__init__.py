"""Learners of action values: tabular Q-learning, DQN, DRON, NFSP, and their replay buffers."""

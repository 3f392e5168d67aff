"""Trainers of bidding networks: supervised learning, reinforcement learning and self-play."""

"""Trainers of bidding networks: supervised, reinforcement learning, self-play."""

"""Trainers of bidding networks: supervised, by reinforcement, by self-play."""

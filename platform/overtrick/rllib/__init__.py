"""RLlib's door: games as its environments, our networks as its modules, its algorithms at work."""

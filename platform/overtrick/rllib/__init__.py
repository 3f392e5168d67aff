"""Our games, policies and networks inside RLlib, and its algorithms run on our games."""

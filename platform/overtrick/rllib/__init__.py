"""Integration with RLlib: our games, networks and policies, trained by its algorithms."""

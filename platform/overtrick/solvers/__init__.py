"""Exact answers on trees; no learning, and no game in sight."""

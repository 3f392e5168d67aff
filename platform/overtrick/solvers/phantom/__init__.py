"""Exact evaluation of phantom games, whose trees do not fit in memory."""

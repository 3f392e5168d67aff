"""Exact and approximate game theory on arrays: equilibria, best responses, search."""

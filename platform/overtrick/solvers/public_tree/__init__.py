"""Exact solvers of two-seat games with public actions and private buckets of similar hands."""

"""Exact values of bucketed two-player games, from public states and ranges of private buckets."""

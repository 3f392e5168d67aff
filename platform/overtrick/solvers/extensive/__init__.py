"""Extensive-form games as flat arrays: building a tree, traversing it, computing best responses."""

"""The extensive form as flat arrays: building a tree, traversing it, best responses on it."""

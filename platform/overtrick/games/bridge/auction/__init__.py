"""The auction as a game: observations, features, and bidders that are networks."""

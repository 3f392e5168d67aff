"""The auction of bridge as a game: rules, observations, features and network bidders."""

"""The bridge auction as a game: rules, observations, features and network bidders."""

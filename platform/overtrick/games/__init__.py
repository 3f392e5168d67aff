"""Rules of the games: one folder for each larger game, and the registry of all games."""

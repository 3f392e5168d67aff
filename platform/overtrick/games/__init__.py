"""The rules of the games: a folder for each larger game, and the registry of all."""

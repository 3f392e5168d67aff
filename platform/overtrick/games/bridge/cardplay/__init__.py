"""The card play as a game (Mini-Bridge): kernels, defenders, state abstractions."""

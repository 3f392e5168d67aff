"""Bridge card play as a game (Mini-Bridge): kernels, rule-based defenders, state abstractions."""

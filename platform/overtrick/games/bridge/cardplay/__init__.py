"""Card play as a game (Mini-Bridge): kernels, rule-based defenders and state abstractions."""

"""Studies for the command line: matches, exact solutions, safe exploitation, style of card play."""

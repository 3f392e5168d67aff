"""Studies that commands run: matches, exact solutions, safety of adaptation, style of card play."""

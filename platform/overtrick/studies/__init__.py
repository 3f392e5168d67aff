"""Studies that commands run: matches, exact solutions, safety of adaptation, card-play style."""

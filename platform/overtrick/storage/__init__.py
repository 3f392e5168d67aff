"""Files of runs, models, recorded games and tables of arrays, and look-up of runs and models."""

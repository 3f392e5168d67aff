"""Files of runs, models, recorded games and tables of arrays; find runs and models."""

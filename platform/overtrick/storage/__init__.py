"""Files of runs, models, recorded games and data sets; find runs and models."""

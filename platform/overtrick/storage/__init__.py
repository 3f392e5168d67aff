"""Files of models, recorded games and tables of arrays, and how runs and models are located."""

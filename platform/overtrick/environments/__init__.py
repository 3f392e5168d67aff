"""Our games as environments of Gymnasium and PettingZoo, and as games of OpenSpiel."""

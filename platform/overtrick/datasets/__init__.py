"""Generated data sets: bridge games, solved deals, bidding examples, card abstractions."""

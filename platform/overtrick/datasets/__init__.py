"""Data generated once and kept: bridge games, deals, bidding examples, card abstractions."""

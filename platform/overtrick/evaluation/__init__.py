"""Measurement of policies: against held-out opponents, in card play, in bidding."""

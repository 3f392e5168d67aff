"""Evaluation of policies: against held-out opponents, in card play and in bidding."""

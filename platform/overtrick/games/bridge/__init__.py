"""Bridge: cards, scoring, auction, card play and bidding systems."""

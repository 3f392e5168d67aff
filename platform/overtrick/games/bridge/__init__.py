"""Bridge: cards, scoring, the auction, the card play and bidding systems."""

"""Players of whole bridge boards, and of card play by search on sampled deals."""

"""Bridge boards as files: PBN, LIN, and the text rows of Zhang et al."""

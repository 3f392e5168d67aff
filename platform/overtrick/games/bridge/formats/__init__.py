"""File formats for bridge boards: PBN, LIN, and the text rows of Zhang et al. 2022."""

"""Bridge tables over TCP: the Blue Chip Bridge table-manager protocol, version 18."""

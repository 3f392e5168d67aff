"""HTML pages: their parts, recorded games step by step, and bridge boards."""

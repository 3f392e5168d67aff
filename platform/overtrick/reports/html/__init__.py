"""Pieces of HTML pages, and games replayed step by step in them."""

"""Bidding systems as data: their files, compiler, linter, rule matching and explanation."""

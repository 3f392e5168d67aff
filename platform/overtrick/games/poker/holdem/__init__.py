"""Limit hold'em beyond its rules: equity, hand isomorphism, card and betting abstraction."""

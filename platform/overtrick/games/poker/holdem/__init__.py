"""Limit hold'em: equities, hand percentiles, hand isomorphism, card and betting abstraction."""

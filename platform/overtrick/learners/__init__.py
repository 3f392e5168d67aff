"""Learning algorithms: observations and returns in, better weights out."""

"""Populations of opponents: who is in them and how they change."""

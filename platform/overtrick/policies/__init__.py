"""Policies (functions from observations to actions) and the rollout loop that plays games."""

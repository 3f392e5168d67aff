"""Stored models that answer from raw observations, in this process or under MLflow."""

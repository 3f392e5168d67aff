"""Delivery of metrics, files and models to MLflow, and access to its model registry."""

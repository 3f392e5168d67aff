"""Delivery of metrics, files and models to MLflow, and its model registry."""

"""Inference with stored models on raw observations, in this process or under MLflow."""

"""Limit poker: rules as constants, the engine, hand ranking and scripted players."""

"""Limit poker: rules as data, the game engine, hand ranking and scripted players."""

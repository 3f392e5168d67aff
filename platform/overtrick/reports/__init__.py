"""Figures, tables, learning curves, progress bars and pieces of HTML pages."""

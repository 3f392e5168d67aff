"""Games played by a person in the terminal, with advice and undo."""

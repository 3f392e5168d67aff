"""Games with a seat for a person: opponents, hints, undo, and a table of results."""

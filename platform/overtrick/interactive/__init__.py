"""Play of a person against policies: opponents, advice, undo, and results."""

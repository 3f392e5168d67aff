"""HTML pages: their elements, step-by-step replays of games, and bridge boards."""

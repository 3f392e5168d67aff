"""The board of opponents: players learn about them in matches, and are evaluated exactly."""

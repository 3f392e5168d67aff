"""Exact evaluation of board games with hidden marks, whose trees do not fit in memory."""

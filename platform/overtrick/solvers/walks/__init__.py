"""Exact evaluation and CFR by walks over games whose trees do not fit in memory."""

"""Exact and approximate game-theoretic solvers on arrays: equilibria, best responses, search."""

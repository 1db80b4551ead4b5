"""Ramanan, Dual coordinate solvers for large-scale structural SVMs: the batch solver."""

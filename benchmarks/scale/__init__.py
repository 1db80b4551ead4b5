"""Rounds, bytes, memory and time of a cluster: simulated, measured on loopback, and extrapolated."""

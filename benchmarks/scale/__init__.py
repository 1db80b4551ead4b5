"""How a cluster scales: rounds, bytes, memory and time, simulated, measured on loopback, and extrapolated."""

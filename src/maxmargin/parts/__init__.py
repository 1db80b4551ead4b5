"""Training on data in parts: examples that leave memory, and the multipliers and planes that remain."""

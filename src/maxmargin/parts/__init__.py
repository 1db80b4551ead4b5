"""Data in parts: examples that come and go, and what is left of them."""

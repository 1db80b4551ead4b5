"""Hostile tests that can run for as long as you like: `python -m fuzz`, or one of them by name."""

"""Timings of single passes: loss-augmented oracle, cached outputs, prediction."""

"""Where examples come from: arrays in memory, made-up data."""

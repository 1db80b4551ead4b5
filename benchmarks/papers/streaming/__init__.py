"""Streaming: the memory of one pass over shards, and the objective after it."""

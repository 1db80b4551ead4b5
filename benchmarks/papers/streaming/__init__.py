"""Streaming: memory of one pass over shards, and what one pass reaches."""

"""What models cost in memory, on disk and for one sentence."""

"""Where work runs: threads, or any executor."""

"""Threads and executors that run Python oracles, deadlines, and the number of reading threads."""

"""Faults: fits that are killed and go on, and what a cluster makes of little memory."""

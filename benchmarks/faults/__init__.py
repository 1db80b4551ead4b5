"""Faults: fits that are killed and resumed, and clusters whose workers have little memory."""

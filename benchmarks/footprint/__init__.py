"""Memory, disk space and time per sentence of models."""

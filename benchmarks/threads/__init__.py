"""The speed-up of training by threads."""

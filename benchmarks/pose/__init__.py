"""Poses of people: joints are the parts of a tree, with hidden types."""

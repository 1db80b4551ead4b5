"""Poses of people: joints as the parts of a tree, with hidden types."""

"""Landmarks on faces by a tree of parts."""

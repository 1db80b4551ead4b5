"""Landmarks of faces, found by a tree of parts."""

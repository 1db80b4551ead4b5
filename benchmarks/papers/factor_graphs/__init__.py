"""Factor graphs with cycles: snakes on grids, and sets of labels with all pairs."""

"""Which gap is small enough? And the cost of a path over C."""

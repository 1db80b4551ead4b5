"""Which gap is small enough, and what a path over C costs."""

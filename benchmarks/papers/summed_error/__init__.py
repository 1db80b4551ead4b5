"""Tables and figures of the paper on summed errors."""

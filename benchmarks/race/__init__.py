"""The race: time, passes and oracle calls to a duality gap, beside other learners, in one run."""

"""The command line from file to scores, beside CRFsuite on the same attributes."""

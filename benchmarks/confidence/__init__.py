"""The quality of probabilities, beside the marginals of CRFsuite."""

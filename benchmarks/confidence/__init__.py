"""How sure predictions are, beside the marginals of CRFsuite."""

"""Table 2 of V. Franc, FASOLE: Fast Algorithm for Structured Output Learning (ECML 2014)."""

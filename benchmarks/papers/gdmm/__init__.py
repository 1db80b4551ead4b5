"""Chains with many labels: Yen et al. (2016)."""

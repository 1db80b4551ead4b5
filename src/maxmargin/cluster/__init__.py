"""Training on many machines, the workers of a `distributed` cluster: see docs/cluster.md."""

from maxmargin.cluster.pool import PartError
from maxmargin.cluster.training import fit

__all__ = ["PartError", "fit"]

"""Pictures of how training went; they read histories, certificates and scores only."""

from maxmargin.report.curves import convergence_plot
from maxmargin.report.validation import validation_plot

__all__ = ["convergence_plot", "validation_plot"]

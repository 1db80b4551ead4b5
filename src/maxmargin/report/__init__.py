"""Pictures of how training went; they read history and certificate only."""

from maxmargin.report.curves import convergence_plot

__all__ = ["convergence_plot"]

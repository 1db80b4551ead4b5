"""What people look at: plots of training, of choices and of weights, and a page about an estimator."""

from maxmargin.report.plots import (
    convergence_plot,
    plot_confusion,
    plot_convergence,
    plot_path,
    plot_weights,
    validation_plot,
)

__all__ = [
    "convergence_plot",
    "plot_confusion",
    "plot_convergence",
    "plot_path",
    "plot_weights",
    "validation_plot",
]

"""Plots of training, of the choice of C and of weights; and an HTML page about an estimator."""

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

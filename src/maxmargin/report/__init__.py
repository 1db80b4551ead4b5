"""What people look at: plots of training, of choices and of weights, and a page about an estimator."""

from maxmargin.report.plots import plot_confusion, plot_convergence, plot_path, plot_weights

__all__ = ["plot_confusion", "plot_convergence", "plot_path", "plot_weights"]

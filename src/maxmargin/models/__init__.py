"""The models, each with its joint features, loss, argmax and loss-augmented argmax."""

from maxmargin.models.bags import Bags
from maxmargin.models.binary import Binary
from maxmargin.models.chain import Chain
from maxmargin.models.factor_graph import FactorGraph
from maxmargin.models.grammar import Grammar
from maxmargin.models.groups import Groups, Regression
from maxmargin.models.joint_kernel import JointKernel
from maxmargin.models.kernel import Kernel
from maxmargin.models.latent import Latent
from maxmargin.models.multiclass import Multiclass
from maxmargin.models.multilabel import MultiLabel
from maxmargin.models.partial import Partial
from maxmargin.models.protocol import Model
from maxmargin.models.ranking import Ranking
from maxmargin.models.registry import register
from maxmargin.models.transitions import Transitions
from maxmargin.models.tree import Tree

register(Binary, Multiclass, Chain, Grammar, Tree, FactorGraph, MultiLabel, Ranking, Kernel)
register(Latent, Bags, Partial, Groups, Regression, structural=False)

__all__ = [
    "Bags",
    "Binary",
    "Chain",
    "FactorGraph",
    "Grammar",
    "JointKernel",
    "Kernel",
    "Latent",
    "Model",
    "MultiLabel",
    "Multiclass",
    "Partial",
    "Ranking",
    "Transitions",
    "Tree",
]

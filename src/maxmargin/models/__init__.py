"""What can be predicted: joint features, loss, argmax and loss-augmented argmax."""

from maxmargin.models.bags import Bags
from maxmargin.models.base import Model
from maxmargin.models.binary import Binary
from maxmargin.models.chain import Chain
from maxmargin.models.grammar import Grammar
from maxmargin.models.joint_kernel import JointKernel
from maxmargin.models.kernel import Kernel
from maxmargin.models.latent import Latent
from maxmargin.models.multiclass import Multiclass
from maxmargin.models.tree import Tree

__all__ = [
    "Bags",
    "Binary",
    "Chain",
    "Grammar",
    "JointKernel",
    "Kernel",
    "Latent",
    "Model",
    "Multiclass",
    "Tree",
]

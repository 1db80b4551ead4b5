# The same core, compiled for x86-64-v3.
from maxmargin._core_baseline import *  # noqa: F403

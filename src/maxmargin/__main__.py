"""python -m maxmargin: the command line."""

import sys

from maxmargin.cli import main

sys.exit(main())

"""Install the requirements for building, linting and testing, as declared in pyproject.toml.

    python tools/install_requirements.py pyproject.toml [EXTRA ...]

They go into this environment. This is a separate step so that the (slow) package build can run
without isolation and keep its build folder.
"""

import re
import subprocess
import sys
from pathlib import Path


def declared(text: str, keys: list[str]) -> list[str]:
    """Return the requirements in these lists of pyproject.toml (Python 3.10 has no tomllib)."""
    wanted = []
    for key in keys:
        # A list ends with a "]" at the end of a line; the "]" of an extra, as in "pyright[nodejs]",
        # is not there.
        block = re.search(rf"^{key} = \[(.*?)\]$", text, flags=re.S | re.M)
        if block is None:
            raise SystemExit(f"pyproject.toml has no list named {key!r}")
        wanted += re.findall(r'"([^"]+)"', block.group(1))
    return wanted


if __name__ == "__main__":
    requirements = declared(Path(sys.argv[1]).read_text(), sys.argv[2:] or ["dependencies", "dev"])
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", *requirements], check=True)

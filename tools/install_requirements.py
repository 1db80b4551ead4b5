"""Install what building, linting and testing need, as declared in pyproject.toml, into this environment.

A separate step so that the (slow) package build can run without isolation and keep its build folder.
"""

import re
import subprocess
import sys
from pathlib import Path


def declared(text: str) -> list[str]:
    """Requirements of the package and of its `dev` extra (Python 3.10 has no tomllib)."""
    wanted = []
    for key in ("dependencies", "dev"):
        block = re.search(rf"^{key} = \[(.*?)\]", text, flags=re.S | re.M)
        if block is None:
            raise SystemExit(f"pyproject.toml has no list named {key!r}")
        wanted += re.findall(r'"([^"]+)"', block.group(1))
    return wanted


if __name__ == "__main__":
    requirements = declared(Path(sys.argv[1]).read_text())
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", *requirements], check=True)

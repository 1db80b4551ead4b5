"""Check that all places name the same version: python tools/check_version.py [VERSION]"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PLACES = {
    "pyproject.toml": r'^version = "([^"]+)"$',
    "src/maxmargin/__init__.py": r'^__version__ = "([^"]+)"$',
    "CHANGELOG.md": r"^## \[(\d[^\]]*)\]",
    "CITATION.cff": r"^version: (\S+)$",
}


def versions() -> dict[str, str]:
    """Return the version that each place names; for the changelog, the newest version."""
    found = {}
    for name, pattern in PLACES.items():
        match = re.search(pattern, (ROOT / name).read_text(), re.MULTILINE)
        found[name] = match.group(1) if match else "none"
    return found


if __name__ == "__main__":
    named = {**versions(), **({"the command line": sys.argv[1]} if len(sys.argv) > 1 else {})}
    if len(set(named.values())) != 1:
        raise SystemExit("\n".join(f"{place}: {version}" for place, version in named.items()))
    print(*set(named.values()))

"""Install a headless browser for the tests that look at pages; without one, these tests are
skipped.

    python tools/install_browser.py

It works on Debian and related systems, as root. Elsewhere it prints the missing packages. The exit
status
is 0 in either case.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from browser import installed

PACKAGES = ("chromium-headless-shell", "chromium")


def install() -> bool:
    """Install one of the packages; return whether that worked."""
    apt = shutil.which("apt-get")
    if apt is None or os.geteuid() != 0:
        return False
    subprocess.run([apt, "update", "-qq"], check=False)
    command = [apt, "install", "-y", "-qq", "--no-install-recommends"]
    return any(
        subprocess.run([*command, name], check=False, stdout=subprocess.DEVNULL).returncode == 0
        for name in PACKAGES
    )


if __name__ == "__main__":
    if not installed() and not install():
        print(f"no browser: install {PACKAGES[0]} or {PACKAGES[1]}, or tests of pages are skipped")
    else:
        print(f"browser: {installed()}")

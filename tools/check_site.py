"""Check a built site: python tools/check_site.py build/site/html

Every link inside the site must lead to an existing file and, if it has an anchor, to an existing
element. Every picture and script must exist, and nothing may be loaded from another site. The tool
prints every violation, and its exit status is 1 if it finds any.
"""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The names of the elements of a page, its links, and the files that it loads."""

    def __init__(self, text: str):
        super().__init__()
        self.names: set[str] = {""}
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {key: value for key, value in attrs if value is not None}
        self.names |= {given[key] for key in ("id", "name") if key in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if "src" in given:
            self.loaded.append(given["src"])
        if tag == "link" and given.get("rel") in ("stylesheet", "icon"):
            self.loaded.append(given["href"])


def wrong(folder: Path) -> list[str]:
    """Return the targets of broken links, as 'page: target'."""
    pages = {
        path: Page(path.read_text(errors="replace"))
        for path in folder.rglob("*.html")
        if "_static" not in path.parts  # templates of the theme
    }
    found = []
    for path, page in pages.items():
        for target in page.links + page.loaded:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                if target in page.loaded and parts.scheme != "data":
                    found.append(f"{path.relative_to(folder)}: loads {target}")
                continue
            file = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not file.exists():
                found.append(f"{path.relative_to(folder)}: {target}")
            elif file in pages and unquote(parts.fragment) not in pages[file].names:
                found.append(f"{path.relative_to(folder)}: {target}, no such place on the page")
    return found


if __name__ == "__main__":
    root = Path(sys.argv[1]).resolve()
    if not (root / "index.html").exists():
        raise SystemExit(f"{root} has no index.html")
    problems = wrong(root)
    print("\n".join(problems) or f"{sum(1 for _ in root.rglob('*.html'))} pages, no broken link")
    raise SystemExit(bool(problems))

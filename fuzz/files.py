"""Data files of the command line that nobody honest wrote: they are read, or refused by name.

    python -m fuzz.files --seconds 60

Files of every text format get strange lines, cuts and bytes. What is read has as many inputs as outputs; what
is refused raises ``ValueError`` with the name of the file, and for what stands in a line its number.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from fuzz.common import Find, main
from fuzz.limits import bounded, workshop
from fuzz.mutate import damaged_bytes, damaged_text, pick
from maxmargin.data.from_file import Reading
from maxmargin.data.read_file import guess_format, read_file

Generator = np.random.Generator
WORDS = [
    "1",
    "-1",
    "1e400",
    "nan",
    "inf",
    "qid:1",
    "qid:",
    "0:1",
    "1:",
    ":1",
    "1:1",
    "99999999999:1",
    ",",
    '"',
    "(",
    ")",
    "#",
    "\\",
    "\\:",
    "=",
    "x",
    "é",
    "\ufeff",
    "1,2",
    "_",
    "-",
]
WORDS += ["\t", "\n", "\n\n", " ", "\r"]
ORIGINALS = {
    "svmlight": "1 1:1 3:0.5 # note\n2 2:1\n3 3:2e-3\n1,2 1:1\n",
    "svmhmm": "1 qid:1 1:1\n2 qid:1 2:1\n1 qid:2 1:1\n",
    "crfsuite": "N\tw=dog\tlen:3\nV\tw=barks\ta\\:b:2\n\nN\tw=cat\n",
    "conll": "the DT B-NP\ndog NN I-NP\n\nit PRP B-NP\n",
    "conllu": "# text\n1-2\tdel\t_\t_\t_\t_\t_\t_\t_\t_\n1\tdogs\tdog\tNOUN\tNN\t_\t0\troot\t_\t_\n\n",
    "brackets": "(S (NP (D the) (N dog)) (V barks))\n((S (V go)))\n",
    "csv": 'size,colour,kind\n1,red,a\n2,"dark, blue",b\n',
    "tsv": "x\ty\n1\t1.5\n2\t2.5\n",
}


def attempt(rng: Generator) -> str:
    """One file of one format, damaged."""
    name = pick(rng, sorted(ORIGINALS))
    text = ORIGINALS[name] * int(rng.integers(1, 4))
    for _ in range(int(rng.integers(0, 5))):
        text = damaged_text(rng, text, WORDS)
    data = text.encode("utf-8", "surrogatepass")
    if rng.random() < 0.2:
        data = damaged_bytes(rng, data)
    path = workshop("files") / f"t.{name}"
    path.write_bytes(data)
    task = pick(rng, ["", "", "multiclass", "multilabel", "regression", "tagging"])
    label = pick(rng, ["", "", "0", "7", "kind", "xpos"])
    with bounded():
        return f"{name}, {check(str(path), name, task, label)}"


def check(path: str, name: str, task: str, label: str) -> str:
    """Read it; what came of it."""
    try:
        if guess_format(path) != name:
            raise Find(f"the format of {path} is guessed wrongly")
        found: Any = read_file(path, Reading(name, task, label))
    except ValueError as error:
        if path not in str(error) and not re.search(r"\b(label|task)\b", str(error)):
            raise Find(f"the error does not name the file: {error}") from error
        return "refused"
    inputs = found.X.shape[0] if hasattr(found.X, "shape") else len(found.X)
    if inputs != len(found.Y):
        raise Find(f"{inputs} inputs, but {len(found.Y)} outputs")
    return "read"


if __name__ == "__main__":
    main("files", attempt)

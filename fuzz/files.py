"""Data files of the command line that nobody honest wrote: they are read, or refused by name.

    python -m fuzz.files --seconds 60

Files of every format get strange lines, cuts and bytes, text in columns also templates that are damaged. What
is read has as many inputs as outputs, and is read again as the same outputs after it was written; what is
refused raises ``ValueError`` with the name of the file, and for what stands in a line its number.
"""

from __future__ import annotations

import io
import re
from typing import Any

import numpy as np

from fuzz.common import Find, main
from fuzz.limits import bounded, workshop
from fuzz.mutate import damaged_bytes, damaged_text, pick
from maxmargin.data.from_file import Reading
from maxmargin.data.read_file import guess_format, read_file
from maxmargin.data.write_file import write_file

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


TEMPLATE = "U00:%x[-1,0]\nU01:%x[0,0]/%x[0,1]\n# note\nB\nB01:%x[1,0]\n"
MARKS = ["U", "B", "%", "%x[", "]", "%x[0,0]", "%x[-99,0]", "%x[0,999]", "%x[1]", "\n", "#", "é"]


def arrays() -> bytes:
    """A file of arrays."""
    content = io.BytesIO()
    np.savez(content, X=np.eye(3), y=np.arange(3))
    return content.getvalue()


def attempt(rng: Generator) -> str:
    """One file of one format, damaged."""
    name = pick(rng, [*sorted(ORIGINALS), "npz"])
    if name == "npz":
        data = damaged_bytes(rng, arrays())
    else:
        text = several(rng, ORIGINALS[name] * int(rng.integers(1, 4)), WORDS)
        data = text.encode("utf-8", "surrogatepass")
        if rng.random() < 0.2:
            data = damaged_bytes(rng, data)
    path = workshop("files") / f"t.{name}"
    path.write_bytes(data)
    task = pick(rng, ["", "", "multiclass", "multilabel", "regression", "tagging"])
    label = pick(rng, ["", "", "0", "7", "kind", "xpos"])
    templates = "words" if rng.random() < 0.7 else several(rng, TEMPLATE, MARKS)
    with bounded():
        return f"{name}, {check(str(path), Reading(name, task, label, templates))}"


def several(rng: Generator, text: str, words: list[str]) -> str:
    """A text with some damages, or none."""
    for _ in range(int(rng.integers(0, 5))):
        text = damaged_text(rng, text, words)
    return text


def check(path: str, reading: Reading) -> str:
    """Read it; what came of it."""
    try:
        if guess_format(path) != reading.format:
            raise Find(f"the format of {path} is guessed wrongly")
        found: Any = read_file(path, reading)
    except ValueError as error:
        if path not in str(error) and not re.search(r"\b(label|task)\b", str(error)):
            raise Find(f"the error does not name the file: {error}") from error
        return "refused"
    inputs = found.X.shape[0] if hasattr(found.X, "shape") else len(found.X)
    if inputs != len(found.Y):
        raise Find(f"{inputs} inputs, but {len(found.Y)} outputs")
    return check_written(path, found)


def check_written(path: str, found: Any) -> str:
    """Write it and read it again; the outputs are the same."""
    name, reading = found.reading.format, Reading(**found.reading.state())
    try:
        write_file(found, f"{path}.again", name)
    except ValueError:  # a task that does not fit the format
        return "read, not written"
    if name == "conll":
        reading.label = ""  # it is written last
    again = read_file(f"{path}.again", reading)
    if [str(y) for y in again.Y] != [str(y) for y in found.Y]:
        raise Find(f"outputs {found.Y} were written, and {again.Y} read")
    return "read and written"


if __name__ == "__main__":
    main("files", attempt)

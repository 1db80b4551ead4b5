"""Train a tagger from a column file that is never in memory as a whole.

The text file has a word and a tag per line; here its sentences are made up. It is converted to
shards once, with little memory. The shards are memory-mapped, and the solver streams over them with
a cache of planes of at most one megabyte.

Run: python examples/out_of_core_tagger.py [--small]
"""

import random
import sys
import tempfile
from pathlib import Path

from maxmargin import StructuralSVM, data, models, solvers

PATTERNS = ["PRON VERB DET NOUN", "DET ADJ NOUN VERB ADV", "PRON VERB NOUN", "DET NOUN VERB NOUN"]
BOTH = ["watch", "book", "fish", "play", "cook", "walk"]  # nouns and verbs
WORDS = {
    "DET": ["the", "a", "this"],
    "ADJ": ["old", "quiet", "green"],
    "NOUN": ["dog", "teacher", "river", *BOTH],
    "PRON": ["they", "we", "you"],
    "VERB": ["see", "follow", "need", *BOTH],
    "ADV": ["slowly", "often", "gladly"],
}


def write_sentences(path, n, seed):
    """Write n sentences, one token per line."""
    chance = random.Random(seed)
    with open(path, "w", encoding="utf-8") as file:
        for _ in range(n):
            for tag in chance.choice(PATTERNS).split():
                file.write(f"{chance.choice(WORDS[tag])} {tag}\n")
            file.write("\n")


folder = Path(tempfile.mkdtemp())
write_sentences(folder / "train.txt", 500 if "--small" in sys.argv else 20_000, seed=0)
write_sentences(folder / "test.txt", 200, seed=1)

data.columns_to_shards(folder / "train.txt", folder / "train", shard_bytes=200_000)
train = data.open_shards(folder / "train")
data.columns_to_shards(folder / "test.txt", folder / "test", like=train)
test = data.open_shards(folder / "test")
print(train)

solver = solvers.Streaming(cache_bytes=2**20, passes=None)
tagger = StructuralSVM(models.Chain(), C=0.01, tol=0.05, solver=solver, random_state=0)
tagger.fit(train.X, train.Y)
print(tagger.certificate_)
print(f"accuracy on new sentences  {tagger.score(test.X, test.Y):.3f}")

words = ["they", "watch", "the", "old", "book"]
tags = tagger.predict([data.describe_columns([[word] for word in words])])[0]
print(" ".join(f"{word}/{tag}" for word, tag in zip(words, tags, strict=True)))

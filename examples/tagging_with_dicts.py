"""Tag the words of sentences; dicts of attributes describe the tokens.

The sentences come from a tiny grammar in which many words are both nouns and verbs ("the watch",
"they watch"), so the neighbours must decide.

Run: python examples/tagging_with_dicts.py [--small]
"""

import random
import sys

import numpy as np

from maxmargin import StructuralSVM, models

BOTH = ["watch", "book", "fish", "play", "water", "cook", "walk", "plan", "smile", "dance"]
WORDS = {
    "DET": ["the", "a", "this", "every"],
    "ADJ": ["old", "quiet", "green", "careful"],
    "NOUN": ["dog", "teacher", "river", "garden", *BOTH],
    "PRON": ["they", "we", "you"],
    "VERB": ["see", "follow", "need", *BOTH],
    "ADV": ["slowly", "often", "gladly"],
}
PATTERNS = [
    "PRON VERB DET NOUN",
    "PRON ADV VERB DET ADJ NOUN",
    "PRON VERB DET NOUN ADV",
    "PRON VERB NOUN",
    "DET ADJ NOUN VERB ADV",
    "ADJ NOUN VERB ADJ NOUN",
]


def sentences(n, seed):
    """Draw n pairs (words, tags)."""
    chance = random.Random(seed)
    tags = [chance.choice(PATTERNS).split() for _ in range(n)]
    return [[chance.choice(WORDS[tag]) for tag in row] for row in tags], tags


def attributes(words):
    """Return one dict per token.

    A string value becomes the indicator "key=string"; a number keeps its value.
    """
    return [
        {"word": word, "ending": word[-2:], "length": len(word) / 10, "first": t == 0}
        for t, word in enumerate(words)
    ]


n = 60 if "--small" in sys.argv else 400
words_train, tags_train = sentences(n, seed=0)
words_test, tags_test = sentences(200, seed=1)
X_train = [attributes(words) for words in words_train]
X_test = [attributes(words) for words in words_test]

tagger = StructuralSVM(models.Chain(loss="hamming", start=True), C=1.0, tol=1e-2, random_state=0)
tagger.fit(X_train, tags_train)
print(f"accuracy on new sentences  {tagger.score(X_test, tags_test):.3f}")
print(f"mistakes per sentence      {tagger.loss(X_test, tags_test):.3f}")

sentence = ["we", "gladly", "fish", "the", "quiet", "fish"]
for reading, score in tagger.predict_k_best([attributes(sentence)], k=2)[0]:
    tagged = " ".join(f"{word}/{tag}" for word, tag in zip(sentence, reading, strict=True))
    print(f"score {score:.2f}  {tagged}")

# The four transitions [previous, next] with the largest weights.
transitions = tagger.model_.unpack(tagger.coef_)["transitions"]
for flat in np.argsort(transitions, axis=None)[::-1][:4]:
    previous, following = np.unravel_index(flat, transitions.shape)
    print(f"{tagger.classes_[previous]} -> {tagger.classes_[following]}", end=" ")
    print(f"{transitions[previous, following]:+.2f}")

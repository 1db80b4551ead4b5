"""Lexicon: words as terminals of a grammar; rare and unknown words get terminals by their appearance.

A word that occurs more than ``rare`` times in training is its own terminal. Any other word has a list of
signatures, from fine to coarse,

    <lower hyphen ~ing>  <lower hyphen ~ng>  <lower hyphen>  <lower>  <unknown>

and its terminal is the first signature that describes more than ``rare`` rare words of training.
<unknown> is always a terminal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

UNKNOWN = "<unknown>"


def word_shape(word: str, first: bool) -> str:
    """Classify a word by digits and capitals; a capital tells less at the beginning of a sentence."""
    if any(letter.isdigit() for letter in word):
        return "mixed" if any(letter.isalpha() for letter in word) else "number"
    if not any(letter.isalpha() for letter in word):
        return "symbol"
    if len(word) > 1 and word.isupper():
        return "upper"
    if word[0].isupper():
        return "first-capital" if first else "capital"
    return "lower"


def signatures(word: str, first: bool) -> list[str]:
    """Return the signatures of a word, from fine to coarse."""
    base = word_shape(word, first)
    looks = [base]
    if "-" in word[1:-1]:
        looks.append(f"{base} hyphen")
    for letters in (2, 3):
        if len(word) > letters + 1 and word[-letters:].isalpha():
            looks.append(f"{looks[1 if '-' in word[1:-1] else 0]} ~{word[-letters:].lower()}")
    return [f"<{look}>" for look in reversed(looks)] + [UNKNOWN]


class Lexicon:
    """Numbers of the terminals: known words in sorted order, then signatures in sorted order."""

    def __init__(self, words: Iterable[str], kept: Iterable[str]):
        self.words: dict[str, int] = {word: t for t, word in enumerate(words)}
        self.signatures: dict[str, int] = {name: len(self.words) + t for t, name in enumerate(kept)}

    @classmethod
    def learn(cls, sentences: Sequence[Sequence[str]], rare: int) -> Lexicon:
        """Learn the lexicon of training sentences."""
        seen = Counter(word for sentence in sentences for word in sentence)
        known = sorted(word for word, count in seen.items() if count > rare)
        looks: Counter[str] = Counter()
        for sentence in sentences:
            for t, word in enumerate(sentence):
                if seen[word] <= rare:
                    looks.update(signatures(word, t == 0))
        kept = {name for name, count in looks.items() if count > rare} | {UNKNOWN}
        return cls(known, sorted(kept))

    def __len__(self) -> int:
        return len(self.words) + len(self.signatures)

    def terminals(self, sentence: Sequence[str]) -> list[int]:
        """Return the terminal of each word."""
        return [self.terminal(word, t == 0) for t, word in enumerate(sentence)]

    def terminal(self, word: str, first: bool) -> int:
        """Return the terminal of a word."""
        if word in self.words:
            return self.words[word]
        return next(self.signatures[n] for n in signatures(word, first) if n in self.signatures)

    def names(self) -> list[str]:
        """Return the name of each terminal: the word, or the signature."""
        return [*self.words, *self.signatures]

    def lexical_rules(self, tagged: Sequence[Sequence[tuple[str, str]]]) -> set[tuple[int, str]]:
        """Return (terminal, tag) of every word in the training data.

        A signature takes the tags of all rare words that it describes, even if they have a finer signature.
        The terminal <unknown> always has tags. If no word is rare, it takes the tags of the words that occur
        once, or else all tags.
        """
        rules: set[tuple[int, str]] = set()
        for sentence in tagged:
            for t, (word, tag) in enumerate(sentence):
                if word in self.words:
                    rules.add((self.words[word], tag))
                else:
                    looks = (self.signatures.get(name) for name in signatures(word, t == 0))
                    rules.update((look, tag) for look in looks if look is not None)
        unknown = self.signatures[UNKNOWN]
        if not any(terminal == unknown for terminal, _ in rules):
            seen = Counter(word for sentence in tagged for word, _ in sentence)
            pairs = {pair for sentence in tagged for pair in sentence}
            open_tags = {tag for word, tag in pairs if seen[word] == 1} or {tag for _, tag in pairs}
            rules.update((unknown, tag) for tag in open_tags)
        return rules

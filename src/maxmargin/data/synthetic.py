"""Synthetic data: words in letters that look handwritten, random chains, classes and trees.

Each pixel of the 16 x 8 bitmap of a letter is mapped to a place in a small font:

    (row, column) -> slant, size, shift and a smooth warp -> (font row, font column)

The ink there is interpolated bilinearly between font pixels. Slant and stroke thickness are drawn once for
each word (its writer). Size, shift, warp and a little more slant are drawn for each letter.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.sparse import csr_matrix

from maxmargin.data.arrays import whole
from maxmargin.data.trees import ParseTree
from maxmargin.io.quoting import short

__all__ = [
    "LETTERS",
    "WORDS",
    "random_chains",
    "random_multiclass",
    "random_treebank",
    "words_of_letters",
]

LETTERS = "abcdefghijklmnopqrstuvwxyz"
LETTER_HEIGHT, LETTER_WIDTH = 16, 8
CONTRAST = 1.5  # factor on the ink, since interpolation spreads a stroke over two pixels

WORD_LIST = """
about after again along always animal answer apple around away back because before begin behind
between bird black book bridge bring brother brown build busy butter candle carry chance change
child circle clean cloud coffee common corner cotton country course crazy cross dance different
dinner dream drive each early earth eight engine enjoy enough evening every example explain
father field finger flower follow forest forget four friend from frozen garden great green ground
group hand happy have heart history horse house hundred island jacket join journey judge juice
jump keep kitchen knife know language large laugh learn letter light listen little long magazine
maybe measure middle minute mixture money morning mother mountain music nature never next night
north nothing number ocean often orange order other paper pencil people picture place pocket
power puzzle quarter question quick quiet rain reason remember river round school season second
seven shadow silver simple sister sixty size sleep smooth snow sound south spring square station
stone story street strong summer table taxi teacher thank their there thing think thousand three
through together travel tree trouble under until valley very village voice water weather week
where which white window winter without wonder word world would write yellow young zero
"""
WORDS = tuple(WORD_LIST.split())

# A small grammar of English: probabilities of the children of a phrase, and the words of a tag.
PHRASES = {
    "S": {"NP VP": 0.8, "PP NP VP": 0.2},
    "NP": {"DT NN": 0.4, "DT JJ NN": 0.2, "NNP": 0.15, "PRP": 0.1, "NP PP": 0.15},
    "VP": {"VBD NP": 0.4, "VBD NP PP": 0.25, "VBD": 0.15, "VBD SBAR": 0.1, "VBD ADVP": 0.1},
    "PP": {"IN NP": 1.0},
    "SBAR": {"IN S": 1.0},
    "ADVP": {"RB": 1.0},
}
TAGGED = {
    "DT": "the a this every",
    "JJ": "old quiet green careful loud",
    "NN": "dog river garden watch book saw fish plan teacher telescope",
    "NNP": "Kim Sandy Oslo Robin",
    "PRP": "she he they we",
    "VBD": "saw heard followed found read watched knew",
    "IN": "with near of in that",
    "RB": "slowly often gladly again",
}

# One pixel is one pen width; four rows above the body of a letter, six for the body, four below.
FONT_SHEETS = {
    "abcdefghi": """
...... #..... ...... ....#. ...... ..###. ...... #..... ......
...... #..... ...... ....#. ...... .#...# ...... #..... ......
...... #..... ...... ....#. ...... .#.... ...... #..... ..#...
...... #..... ...... ....#. ...... .#.... ...... #..... ......
.###.. #.##.. ..###. .##.#. .###.. ####.. .##.#. #.##.. .##...
....#. ##..#. .#.... #..##. #...#. .#.... #..##. ##..#. ..#...
.####. #...#. #..... #...#. #####. .#.... #...#. #...#. ..#...
#...#. #...#. #..... #...#. #..... .#.... #..##. #...#. ..#...
#..##. ##..#. #....# #..##. #....# .#.... .##.#. #...#. ..#...
.##.## #.##.. .####. .##.## .####. .#.... ....#. #...## ..##..
...... ...... ...... ...... ...... ...... ....#. ...... ......
...... ...... ...... ...... ...... ...... ....#. ...... ......
...... ...... ...... ...... ...... ...... #..#.. ...... ......
...... ...... ...... ...... ...... ...... .##... ...... ......""",
    "jklmnopqr": """
...... #..... .##... ...... ...... ...... ...... ...... ......
...... #..... ..#... ...... ...... ...... ...... ...... ......
....#. #..... ..#... ...... ...... ...... ...... ...... ......
...... #..... ..#... ...... ...... ...... ...... ...... ......
...##. #...#. ..#... ##.##. #.##.. .###.. #.##.. .##.#. #.###.
....#. #..#.. ..#... #.#..# ##..#. #...#. ##..#. #..##. ##...#
....#. #.#... ..#... #.#..# #...#. #...#. #...#. #...#. #.....
....#. ###... ..#... #.#..# #...#. #...#. #...#. #...#. #.....
....#. #..#.. ..#... #.#..# #...#. #...#. ##..#. #..##. #.....
....#. #...## ..###. #.#..# #...## .###.. #.##.. .##.#. #.....
....#. ...... ...... ...... ...... ...... #..... ....#. ......
....#. ...... ...... ...... ...... ...... #..... ....#. ......
#..#.. ...... ...... ...... ...... ...... #..... ....## ......
.##... ...... ...... ...... ...... ...... #..... ....#. ......""",
    "stuvwxyz": """
...... ...... ...... ...... ...... ...... ...... ......
...... ...... ...... ...... ...... ...... ...... ......
...... .#.... ...... ...... ...... ...... ...... ......
...... .#.... ...... ...... ...... ...... ...... ......
.####. #####. #...#. #...#. #.#..# #...#. #...#. #####.
#..... .#.... #...#. #...#. #.#..# .#.#.. #...#. ....#.
.##... .#.... #...#. #...#. #.#..# ..#... #...#. ...#..
...##. .#.... #...#. .#.#.. #.#..# ..#... #...#. ..#...
....#. .#..#. #..##. .#.#.. #.#.## .#.#.. #..##. .#....
####.. ..##.. .##.## ..#... .#.#.. #...#. .##.#. #####.
...... ...... ...... ...... ...... ...... ....#. ......
...... ...... ...... ...... ...... ...... ....#. ......
...... ...... ...... ...... ...... ...... #..#.. ......
...... ...... ...... ...... ...... ...... .##... ......""",
}


def words_of_letters(
    n_words: int,
    random_state: Any = None,
    *,
    noise: float = 0.25,
    shift: bool = True,
    slant: float = 0.25,
    thickness: float = 0.12,
    warp: float = 0.6,
    words: tuple[str, ...] = WORDS,
    dtype: DTypeLike = np.float64,
) -> tuple[list[NDArray[Any]], list[list[str]]]:
    """Draw words in letters that look handwritten; each letter is a bitmap of 16 x 8 pixels.

    Parameters
    ----------
    n_words : number of words, drawn uniformly from ``words``.
    random_state : None, an int, a NumPy ``Generator`` or ``RandomState``.
    noise : standard deviation of the Gaussian noise added to each pixel (ink is 1, paper 0).
    shift : whether letters may be moved by one pixel.
    slant : standard deviation of the writers' slant, in columns per four rows.
    thickness : standard deviation of the writers' stroke thickness, in units of ink.
    warp : size of the smooth distortion of each letter, in pixels.
    words : the vocabulary; lower-case letters a to z only.
    dtype : floating type of the bitmaps.

    Returns
    -------
    X : list of (T, 128) arrays, one row per letter, pixels in row-major order, values in [0, 1].
    Y : list of lists of T one-letter strings.
    """
    rng = _generator(random_state)
    whole().check("n_words", n_words)
    sizes = {"noise": noise, "slant": slant, "thickness": thickness, "warp": warp}
    for name, size in sizes.items():
        _check_size(name, size)
    _check_words(words)
    texts = [words[i] for i in rng.integers(len(words), size=n_words)]
    lengths = np.array([len(text) for text in texts])
    codes = np.array([LETTERS.index(letter) for text in texts for letter in text])
    ink = _interpolate(_font()[codes], *_looked_up_at(lengths, rng, shift, slant, warp))
    pen = np.repeat(rng.normal(0.0, thickness, n_words), lengths)
    ink = np.clip(CONTRAST * ink + pen[:, None, None] * (ink > 0.0), 0.0, 1.0)
    ink = np.clip(ink + rng.normal(0.0, noise, ink.shape), 0.0, 1.0)
    pixels = ink.reshape(len(codes), LETTER_HEIGHT * LETTER_WIDTH).astype(dtype)
    return np.split(pixels, np.cumsum(lengths)[:-1]), [list(text) for text in texts]


def random_chains(
    n: int,
    n_labels: int = 3,
    n_features: int = 5,
    *,
    min_length: int = 1,
    max_length: int = 4,
    noise: float = 1.0,
    sparse: bool = False,
    dtype: DTypeLike = np.float64,
    random_state: Any = None,
) -> tuple[list[Any], list[NDArray[np.int64]]]:
    """Draw chains of integer labels from a random Markov chain; features are noisy label prototypes.

    Every label occurs if the chains have at least ``n_labels`` nodes in total. With ``sparse`` the
    features are CSR matrices, and about half of the values are zero.

    Returns X, a list of (T, n_features) arrays or CSR matrices, and Y, a list of (T,) integers.
    """
    rng = _generator(random_state)
    for name, count in (("n", n), ("n_labels", n_labels), ("n_features", n_features)):
        whole().check(name, count)
    whole().check("min_length", min_length)
    if max_length < min_length:
        raise ValueError(f"max_length: expected at least min_length={min_length}, got {max_length}")
    _check_size("noise", noise)
    lengths = rng.integers(min_length, max_length + 1, size=n)
    prototypes = rng.normal(size=(n_labels, n_features))
    cumulative = np.cumsum(rng.dirichlet(np.full(n_labels, 0.5), size=n_labels), axis=1)
    Y = [_markov_walk(cumulative, length, rng) for length in lengths]
    _show_every_label(Y, n_labels)
    X = [_noisy(prototypes[y], noise, sparse, dtype, rng) for y in Y]
    return X, Y


def random_multiclass(
    n: int,
    n_classes: int = 3,
    n_features: int = 5,
    *,
    noise: float = 1.0,
    sparse: bool = False,
    dtype: DTypeLike = np.float64,
    random_state: Any = None,
) -> tuple[Any, NDArray[np.int64]]:
    """Draw points around one random prototype per class; every class occurs if n is large enough.

    Returns X, an (n, n_features) array (CSR, about half zero, if ``sparse``), and y, (n,) integers.
    """
    rng = _generator(random_state)
    for name, count in (("n", n), ("n_classes", n_classes), ("n_features", n_features)):
        whole().check(name, count)
    _check_size("noise", noise)
    prototypes = rng.normal(size=(n_classes, n_features))
    y = rng.permutation(np.arange(n) % n_classes)
    return _noisy(prototypes[y], noise, sparse, dtype, rng), y


def random_treebank(
    n: int, max_words: int = 12, *, random_state: Any = None
) -> tuple[list[list[str]], list[ParseTree]]:
    """Draw sentences of at most ``max_words`` words, with their trees, from a small grammar of English.

    Words are ambiguous ("saw", "that"), and prepositional phrases attach to nouns or verbs.

    Returns X, a list of lists of words, and Y, a list of ``ParseTree``.
    """
    rng = _generator(random_state)
    whole().check("n", n)
    whole().check("max_words", max_words)
    if max_words < 2:
        raise ValueError(f"max_words: expected at least 2, a subject and a verb, got {max_words}")
    trees: list[ParseTree] = []
    while len(trees) < n:
        tree = _sentence("S", rng, depth=0)
        if len(tree.leaves()) <= max_words:
            trees.append(tree)
    return [tree.leaves() for tree in trees], trees


def _sentence(symbol: str, rng: np.random.Generator, depth: int) -> ParseTree:
    if symbol in TAGGED:
        return ParseTree(symbol, [str(rng.choice(TAGGED[symbol].split()))])
    # At depth 6 and below use only the first production, which is not recursive, so that sentences end.
    ways = PHRASES[symbol]
    chosen = rng.choice(list(ways), p=list(ways.values())) if depth < 6 else next(iter(ways))
    return ParseTree(symbol, [_sentence(child, rng, depth + 1) for child in str(chosen).split()])


def _generator(random_state: Any) -> np.random.Generator:
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31 - 1))
    return np.random.default_rng(random_state)


def _check_size(name: str, size: float) -> None:
    if not 0.0 <= size < np.inf:
        raise ValueError(f"{name}: expected a finite number of at least 0, got {short(size)}")


def _check_words(words: tuple[str, ...]) -> None:
    if len(words) == 0:
        raise ValueError("words: expected at least one word, got none")
    for word in words:
        if not word or not set(word) <= set(LETTERS):
            raise ValueError(f"words: expected words of the letters a to z, got {short(word)}")


def _font() -> NDArray[np.float64]:
    """The ink of the 26 letters, shape (26, 16, 8); each letter is centred in its bitmap."""
    font = np.zeros((len(LETTERS), LETTER_HEIGHT, LETTER_WIDTH))
    for letters, sheet in FONT_SHEETS.items():
        for row, line in enumerate(sheet.split("\n")[1:], start=1):
            for letter, pixels in zip(letters, line.split(), strict=True):
                font[LETTERS.index(letter), row, 1:7] = [pixel == "#" for pixel in pixels]
    return font


def _looked_up_at(
    lengths: NDArray[np.int64], rng: np.random.Generator, shift: bool, slant: float, warp: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The font row and column that each of the 16 x 8 pixels of every letter shows."""
    n_words, n_letters = len(lengths), int(lengths.sum())
    writer = np.repeat(rng.normal(0.0, slant, n_words), lengths)
    lean = (writer + rng.normal(0.0, slant / 3, n_letters)) / 4.0
    height, width = 1.0 + warp * rng.normal(0.0, 0.12, (2, n_letters))
    down, right = rng.integers(-1, 2, (2, n_letters)) * float(shift)
    row = np.arange(LETTER_HEIGHT)[None, :, None] - (LETTER_HEIGHT - 1) / 2
    column = np.arange(LETTER_WIDTH)[None, None, :] - (LETTER_WIDTH - 1) / 2
    row = row - down[:, None, None]
    column = column - right[:, None, None]
    column = column + lean[:, None, None] * row
    wave = warp * rng.uniform(0.0, 1.0, (2, n_letters, 1, 1))
    phase = rng.uniform(0.0, 2 * np.pi, (2, n_letters, 1, 1))
    rows = height[:, None, None] * row + wave[0] * np.sin(0.7 * column + phase[0])
    columns = width[:, None, None] * column + wave[1] * np.sin(0.5 * row + phase[1])
    return rows + (LETTER_HEIGHT - 1) / 2, columns + (LETTER_WIDTH - 1) / 2


def _interpolate(
    glyphs: NDArray[np.float64], rows: NDArray[np.float64], columns: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Interpolate glyph i bilinearly at (rows[i], columns[i]); outside the bitmap is paper (0)."""
    # With a border of two blank pixels, positions can be clipped instead of tested.
    padded = np.pad(glyphs, ((0, 0), (2, 2), (2, 2)))
    rows = np.clip(rows + 2.0, 0.0, LETTER_HEIGHT + 2.0)
    columns = np.clip(columns + 2.0, 0.0, LETTER_WIDTH + 2.0)
    top, left = rows.astype(np.int64), columns.astype(np.int64)
    below, beside = rows - top, columns - left
    letter = np.arange(len(glyphs))[:, None, None]

    def across(row: NDArray[np.int64]) -> NDArray[np.float64]:
        return (1 - beside) * padded[letter, row, left] + beside * padded[letter, row, left + 1]

    return (1 - below) * across(top) + below * across(top + 1)


def _markov_walk(
    cumulative: NDArray[np.float64], length: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    n_labels = len(cumulative)
    labels = np.empty(length, dtype=np.int64)
    labels[0] = rng.integers(n_labels)
    for t in range(1, length):
        drawn = np.searchsorted(cumulative[labels[t - 1]], rng.random())
        labels[t] = min(int(drawn), n_labels - 1)
    return labels


def _show_every_label(Y: list[NDArray[np.int64]], n_labels: int) -> None:
    """Overwrite repeated labels, in place, until every label occurs or no label is repeated."""
    nodes = np.concatenate(Y)
    counts = np.bincount(nodes, minlength=n_labels)
    for label in np.flatnonzero(counts == 0):
        if counts.max() == 1:
            break
        node = int(np.flatnonzero(nodes == counts.argmax())[-1])
        counts[nodes[node]] -= 1
        counts[label] += 1
        nodes[node] = label
    start = 0
    for labels in Y:
        labels[:] = nodes[start : start + len(labels)]
        start += len(labels)


def _noisy(
    centers: NDArray[np.float64],
    noise: float,
    sparse: bool,
    dtype: DTypeLike,
    rng: np.random.Generator,
) -> Any:
    points = centers + rng.normal(0.0, noise, centers.shape)
    if not sparse:
        return points.astype(dtype)
    return csr_matrix((points * (rng.random(points.shape) < 0.5)).astype(dtype))

"""Generated data: shapes, labels, reproducibility, and the difficulty of the letters."""

import numpy as np
import pytest
from scipy.sparse import issparse
from sklearn.linear_model import RidgeClassifier

from maxmargin.data.synthetic import (
    LETTERS,
    WORDS,
    random_chains,
    random_multiclass,
    random_treebank,
    words_of_letters,
)
from maxmargin.data.synthetic_text import news_sentences


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_words_have_a_bitmap_per_letter(dtype):
    X, Y = words_of_letters(20, random_state=0, dtype=dtype)
    assert len(X) == len(Y) == 20
    for x, y in zip(X, Y, strict=True):
        assert x.shape == (len(y), 128)
        assert x.dtype == dtype
        assert x.flags.c_contiguous
        assert x.min() >= 0.0 and x.max() <= 1.0
        assert "".join(y) in WORDS


def test_word_list_is_rich():
    assert len(set(WORDS)) == len(WORDS) >= 150
    assert set("".join(WORDS)) == set(LETTERS)


def test_same_seed_same_words():
    X, Y = words_of_letters(5, random_state=3)
    X_again, Y_again = words_of_letters(5, random_state=np.random.default_rng(3))
    X_other, _ = words_of_letters(5, random_state=4)
    assert Y_again == Y
    assert all(np.array_equal(a, b) for a, b in zip(X, X_again, strict=True))
    assert not np.array_equal(np.vstack(X)[:3], np.vstack(X_other)[:3])


def test_numpy_random_state_is_accepted():
    first = words_of_letters(4, random_state=np.random.RandomState(1))
    again = words_of_letters(4, random_state=np.random.RandomState(1))
    assert first[1] == again[1]


def test_without_disturbance_a_letter_is_its_glyph():
    quiet = {"noise": 0, "slant": 0, "thickness": 0, "warp": 0, "shift": False}
    X, Y = words_of_letters(200, random_state=0, **quiet)
    letters, labels = np.vstack(X), np.concatenate(Y)
    glyphs = {letter: letters[labels == letter] for letter in LETTERS}
    assert all(len(drawn) > 0 and np.ptp(drawn, axis=0).max() == 0 for drawn in glyphs.values())
    assert set(np.unique(letters)) == {0.0, 1.0}
    assert len(np.unique([drawn[0] for drawn in glyphs.values()], axis=0)) == 26


def test_letters_alone_are_neither_easy_nor_hopeless():
    X, Y = words_of_letters(500, random_state=0)
    X_test, Y_test = words_of_letters(200, random_state=1)
    flat = RidgeClassifier(alpha=10.0).fit(np.vstack(X), np.concatenate(Y))
    assert 0.5 < flat.score(np.vstack(X_test), np.concatenate(Y_test)) < 0.85


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"n_words": 0}, "n_words"),
        ({"n_words": 2.5}, "n_words"),
        ({"n_words": 1, "noise": -1}, "noise"),
        ({"n_words": 1, "warp": np.nan}, "warp"),
        ({"n_words": 1, "words": ()}, "words"),
        ({"n_words": 1, "words": ("Word",)}, "'Word'"),
    ],
)
def test_bad_arguments_are_named(arguments, named):
    with pytest.raises(ValueError, match=named):
        words_of_letters(**arguments)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_random_chains(sparse, dtype):
    X, Y = random_chains(
        30, 4, 6, min_length=2, max_length=5, sparse=sparse, dtype=dtype, random_state=0
    )
    assert {len(y) for y in Y} <= {2, 3, 4, 5}
    assert set(np.concatenate(Y)) == {0, 1, 2, 3}
    for x, y in zip(X, Y, strict=True):
        assert x.shape == (len(y), 6) and x.dtype == dtype and issparse(x) == sparse


@pytest.mark.parametrize("seed", range(10))
def test_every_label_occurs_when_it_can(seed):
    _, Y = random_chains(4, 4, 2, max_length=1, random_state=seed)
    assert sorted(np.concatenate(Y)) == [0, 1, 2, 3]
    _, Y = random_chains(2, 4, 2, max_length=1, random_state=seed)
    assert len(set(np.concatenate(Y))) == 2


def test_chain_lengths_are_checked():
    with pytest.raises(ValueError, match="max_length"):
        random_chains(3, min_length=4, max_length=2)


@pytest.mark.parametrize("sparse", [False, True])
def test_random_multiclass(sparse):
    X, y = random_multiclass(11, 4, 3, sparse=sparse, random_state=0)
    again, y_again = random_multiclass(11, 4, 3, sparse=sparse, random_state=0)
    assert X.shape == (11, 3) and issparse(X) == sparse
    assert set(y) == {0, 1, 2, 3}
    assert np.array_equal(y, y_again) and abs(X - again).sum() == 0


def test_random_multiclass_checks_counts():
    with pytest.raises(ValueError, match="n_classes"):
        random_multiclass(5, 0)


def test_treebank_is_reproducible_and_within_its_length():
    X, Y = random_treebank(50, 6, random_state=3)
    again = random_treebank(50, 6, random_state=3)
    assert again == (X, Y) and len(X) == len(Y) == 50
    assert [tree.leaves() for tree in Y] == X and max(map(len, X)) <= 6
    assert {tree.label() for tree in Y} == {"S"}
    assert random_treebank(50, 6, random_state=4)[0] != X


@pytest.mark.parametrize(
    "n, words, name", [(0, 6, "^n must"), (3, 0, "max_words"), (3, 1, "max_words")]
)
def test_treebank_refuses_bad_sizes(n, words, name):
    with pytest.raises(ValueError, match=name):
        random_treebank(n, words)


@pytest.mark.parametrize("new", [False, True])
def test_sentences_have_legal_tags(new):
    X, Y = news_sentences(200, random_state=0, new=new)
    assert news_sentences(200, random_state=0, new=new) == (X, Y)
    for words, tags in zip(X, Y, strict=True):
        assert len(words) == len(tags)
        for before, tag in zip(["O", *tags], tags, strict=False):
            assert tag[0] != "I" or before in (tag, f"B{tag[1:]}")
    kinds = {tag[2:] for tags in Y for tag in tags}
    assert kinds == {"", "PER", "ORG", "LOC"}


def test_new_sentences_have_words_that_others_lack():
    seen, _ = news_sentences(2000, random_state=0)
    met, _ = news_sentences(2000, random_state=1, new=True)
    seen, met = ({word for words in X for word in words} for X in (seen, met))
    assert seen < met and len(met - seen) > 50
    assert "{" not in "".join(met)

"""Named entities: people, organisations and places in sentences, from features to a saved model.

The sentences are made up, but they have the usual difficulties: unknown names, entities of several
words, and names that are also words or names of another kind ("Rose", "Lincoln", "Jordan"). Tokens
have the usual features: the word, its shape, its affixes, its neighbours, and lists of known names.

Run: python examples/named_entities.py [--small]
"""

import sys

import maxmargin as mm
from maxmargin import losses, metrics, models
from maxmargin.data.synthetic_text import KNOWN_NAMES, news_sentences


def shape(word):
    """Return the kinds of characters, with repeats merged: "Kim-2" becomes "Xx-d"."""
    kinds = [
        "X" if c.isupper() else "x" if c.islower() else "d" if c.isdigit() else c for c in word
    ]
    return "".join(c for t, c in enumerate(kinds) if t == 0 or c != kinds[t - 1])


def token_features(words, t):
    """Return the attributes of a token: a string is an indicator, a list is several indicators."""
    word = words[t]
    window = {
        f"word{step:+d}": words[t + step].lower() if 0 <= t + step < len(words) else "(edge)"
        for step in (-2, -1, 1, 2)
    }
    return {
        "word": word.lower(),
        "shape": shape(word),
        "prefix": [word[:k].lower() for k in (2, 3)],
        "suffix": [word[-k:].lower() for k in (1, 2, 3)],
        "listed": [name for name, members in KNOWN_NAMES.items() if word in members],
        "first": t == 0,
        **window,
    }


def features(sentence):
    """Return the attributes of all tokens."""
    return [token_features(sentence, t) for t in range(len(sentence))]


small = "--small" in sys.argv
data = {}
for part, n, seed, new in (
    ("train", 120, 0, False),
    ("valid", 80, 1, True),
    ("test", 200, 2, True),
):
    words, tags = news_sentences(n if small else 4 * n, seed, new=new)
    data[part] = words, [features(sentence) for sentence in words], tags
(_, X, Y), (_, X_valid, Y_valid), (words, X_test, Y_test) = data.values()

# Try several values of C. Each fit starts from the solution of the previous one, and the best
# solution is the one with the largest entity F1 on held-out sentences. The model never predicts
# tags
# that break the scheme, and a missed entity costs twice as much as another mistake.
chain = models.Chain(losses.Entity(miss=2.0), start=True, transitions="iob2")
svm = mm.StructuralSVM(chain, tol=0.02, random_state=0)
path = mm.regularization_path(
    svm, X, Y, [0.003, 0.01, 0.03, 0.1, 0.3], validation=(X_valid, Y_valid), scoring="entity_f1"
)
for C, score in zip(path.Cs, path.scores, strict=True):
    print(f"C {C:<6g} entity F1 on held-out sentences {score:.3f}")
svm = path.best

predicted = svm.predict(X_test)
print(f"\nshare of right tags {svm.score(X_test, Y_test):.3f}, but of entities:")
print(metrics.entity_report(Y_test, predicted, scheme="iob2"))
unknown = metrics.get_scorer("unknown_accuracy", attribute="word")
print(f"tags of words that training has not seen: {unknown(svm, X_test, Y_test):.3f} right")

# What the model has learnt, and the sentences on which it fails.
print(f"\n{svm.top_features('B-PER', 6)}\n\n{svm.transitions()}")
worst = svm.errors(X_test, Y_test, k=3)
print(f"\n{worst}")
if len(worst):
    i = worst.rows[0]
    t = int(worst["which"][0].split(":")[0])
    print(f"\n{' '.join(words[i])}\n{svm.explain(X_test[i])[t]}")

# A model file holds numbers and text, but no code. The loaded model predicts the same.
svm.save("entities.safetensors")
tagger = mm.load("entities.safetensors")
assert all((a == b).all() for a, b in zip(tagger.predict(X_test), predicted, strict=True))
text = "Ingrid Castle of Rose Foods flew to New Oslo in May ."
sentence = text.split()
(tags,) = tagger.predict([features(sentence)])
print("\nfrom the file:", " ".join(f"{w}/{tag}" for w, tag in zip(sentence, tags, strict=True)))

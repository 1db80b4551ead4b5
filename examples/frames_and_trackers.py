"""Work with other packages: tables of tokens, sample weights in a search, experiment trackers.

A table of tokens becomes sentences, a grid search passes weights on to each fit, and trackers
record the steps of training.

Run: python examples/frames_and_trackers.py [--small]
"""

import sys

import numpy as np
import pandas as pd
import sklearn
from sklearn.model_selection import GridSearchCV

import maxmargin as mm
from maxmargin import models
from maxmargin.callbacks import ProgressBar, TensorBoard
from maxmargin.data.synthetic_text import news_sentences

sentences, tags = news_sentences(60 if "--small" in sys.argv else 300, random_state=0)

# One long table, as read from a file or a database.
tokens = pd.DataFrame(
    {
        "sentence": np.repeat(np.arange(len(sentences)), [len(s) for s in sentences]),
        "word": [word for sentence in sentences for word in sentence],
        "tag": [tag for sentence in tags for tag in sentence],
    }
)
tokens["ending"] = tokens["word"].str[-3:]
tokens["title"] = tokens["word"].str.istitle()
tokens["before"] = tokens.groupby("sentence")["word"].shift()  # nothing before the first word

# Each sentence is a table; its columns are the attributes of its tokens.
parts = [part for _, part in tokens.groupby("sentence", sort=False)]
X = [part[["word", "ending", "title", "before"]] for part in parts]
Y = [part["tag"] for part in parts]

# Long sentences count less; the search passes each fold its part of the weights.
weight = np.array([1 / len(part) for part in parts])
weight /= weight.mean()  # so that C keeps its meaning
with sklearn.config_context(enable_metadata_routing=True):
    tagger = mm.StructuralSVM(models.Chain(), random_state=0).set_fit_request(sample_weight=True)
    tagger.set_score_request(sample_weight=True)
    search = GridSearchCV(tagger, {"C": [0.1, 1.0, 10.0]}, cv=3).fit(X, Y, sample_weight=weight)
print(f"best C {search.best_params_['C']}: tags right {search.best_score_:.3f}, weighted")

# The trackers that are installed get the steps of one more fit.
trackers = {"tqdm": ProgressBar, "tensorboardX": lambda: TensorBoard("runs/tagger")}
for package, tracker in trackers.items():
    try:
        search.best_estimator_.fit(X, Y, sample_weight=weight, callbacks=[tracker()])
        print(f"{package}: has seen the training")
    except ImportError as error:
        print(error)
print(search.best_estimator_.certificate_)

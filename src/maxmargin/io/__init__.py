"""Files: models for prediction, and the formats of examples by name, which the command line knows too."""

FORMATS = (
    "svmlight",
    "svmhmm",
    "crfsuite",
    "conll",
    "conllu",
    "brackets",
    "csv",
    "tsv",
    "npz",
    "parquet",
    "shards",
)
TASKS = ("multiclass", "binary", "tagging", "multilabel", "parsing", "regression")

"""Model files and safe writing of files; the names of formats and tasks that the command line shares."""

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

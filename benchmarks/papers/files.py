"""The files of the data folder, by content."""

from __future__ import annotations

OCR = "ocr_letters/ocr_letters.npz"
USPS = ("usps/zip.train.gz", "usps/zip.test.gz")
FACES = "faces68/faces68.npz"
COVERTYPE = "covtype/covtype.csv.gz"
TREEBANK_TAGS, BROWN = "treebank/treebank.dep.gz", "brown/brown.tsv.gz"
PARSES = ("treebank/treebank.mrg.gz", "treebank/files.tsv")
NEWS, RCV1 = "newsgroups20/newsgroups20.npz", "rcv1_subsets/rcv1sub1.npz"
PINYIN = ("pinyin_pku/train.tsv.gz", "pinyin_pku/test.tsv.gz")
POSES = "lspet400/lspet400.npz"
GRADES = ("lambdarank_example/rank.train.gz", "lambdarank_example/rank.test.gz")

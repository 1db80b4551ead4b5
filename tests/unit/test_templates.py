"""Templates of CRF++: the documented expansions, its rules on random sentences, and training with them."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

import maxmargin as mm
from maxmargin.cli import main
from maxmargin.data.from_file import Reading
from maxmargin.data.patterns import Expression
from maxmargin.data.read_file import read_file
from maxmargin.data.templates import describe_columns

# The example in CRF++'s documentation; its current token is "the".
SENTENCE = [row.split() for row in ("He PRP", "reckons VBZ", "the DT", "current NN", "account NN")]
DOCUMENTED = {
    "%x[0,0]": "the",
    "%x[0,1]": "DT",
    "%x[-1,0]": "reckons",
    "%x[-2,1]": "PRP",
    "%x[0,0]/%x[0,1]": "the/DT",
    "ABC%x[0,1]123": "ABCDT123",
}


@pytest.mark.parametrize("macro", DOCUMENTED)
def test_the_expansions_of_the_documentation(macro):
    nodes = describe_columns(SENTENCE, f"# Unigram\nU00:{macro}\n\n# Bigram\nB\n")
    assert nodes[2] == [f"U00:{DOCUMENTED[macro]}"]


def expanded(line, rows, t):
    """Expand a line by the rules of CRF++: _B-1, _B-2, ... before the sentence, _B+1, _B+2, ... after it."""

    def cell(match):
        i = t + int(match[1])
        if i < 0:
            return ("_B-1", "_B-2", "_B-3", "_B-4")[-i - 1]
        if i >= len(rows):
            return ("_B+1", "_B+2", "_B+3", "_B+4")[i - len(rows)]
        return rows[i][int(match[2])]

    return re.sub(r"%x\[(-?\d+),(\d+)\]", cell, line)


MACROS = st.builds("%x[{},{}]".format, st.integers(-4, 4), st.integers(0, 1))
LINES = st.lists(st.sampled_from(["/", "a", ":"]) | MACROS, max_size=4).map("".join)


CELLS = st.sampled_from(["a", "b\\1", "%x[0,0]"])


@given(
    tokens=st.lists(LINES, min_size=1, max_size=3),
    edges=st.lists(MACROS, max_size=2),
    rows=st.lists(st.lists(CELLS, min_size=2, max_size=2), min_size=1, max_size=4),
)
def test_random_templates(tokens, edges, rows):
    tokens = [f"U{i:02}:{line}" for i, line in enumerate(tokens)]
    edges = [f"B{i:02}:{line}" for i, line in enumerate(edges)]
    found = describe_columns(rows, "\n".join([*tokens, "B", *edges]))
    nodes = [[expanded(line, rows, t) for line in tokens] for t in range(len(rows))]
    links = [[expanded(line, rows, t) for line in edges] for t in range(1, len(rows))]
    assert found == ((nodes, links) if edges else nodes)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("X00:%x[0,0]", "line 1"),
        ("U00:%x[0,0]\nU01:%y[0,0]", "line 2"),
        ("U00:%x[0]", "line 1"),
        ("B\n", "at least one line that begins with U"),
        ("# nothing", "at least one line"),
        ("U00:%x[0,7]", "column 7, but besides the label there are only 2"),
    ],
)
def test_what_is_wrong_with_a_template_is_said(text, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        describe_columns(SENTENCE, text)


COLUMNS = (
    "the DT B-NP\ndog NN I-NP\nbarks VB O\n\ngo VB O\n\na DT B-NP\ncat NN I-NP\nsits VB O\n\n" * 3
)


@pytest.mark.parametrize("edges", ["", "B01:%x[0,1]\n"])
def test_from_a_template_to_a_model(edges, tmp_path, capsys):
    (tmp_path / "t.conll").write_text(COLUMNS)
    (tmp_path / "template").write_text("U00:%x[0,0]\nU01:%x[-1,1]/%x[0,1]\nB\n" + edges)
    files = [str(tmp_path / name) for name in ("t.conll", "m")]
    assert main(["train", *files, "--template", str(tmp_path / "template")]) == 0
    svm = mm.load(files[1])
    assert svm.model_.edges == bool(edges)
    assert {"U00:dog", "U01:_B-1/DT", "U01:DT/NN"} <= set(svm.feature_names_)
    assert main(["evaluate", files[1], files[0], "--json"]) == 0
    assert '"tag accuracy": 1.0' in capsys.readouterr().out
    for command in ("inspect", "report"):
        more = [files[0], "--output", str(tmp_path / "page.html")] if command == "report" else []
        assert main([command, files[1], *more]) == 0
    state = Reading.from_state(svm.reading_)
    assert read_file(files[0], state).X == read_file(files[0], Reading(**svm.reading_)).X
    with pytest.raises(ValueError, match="templates"):
        Reading.from_state(svm.reading_ | {"templates": "no template"})


def test_errors_of_the_command(tmp_path, capsys):
    (tmp_path / "t.conll").write_text(COLUMNS)
    data, model = str(tmp_path / "t.conll"), str(tmp_path / "m")
    assert main(["train", data, model, "--templates", str(tmp_path / "none")]) == 1
    assert "none" in capsys.readouterr().err
    (tmp_path / "bad").write_text("U00:%x[0,0]\nhello\n")
    assert main(["train", data, model, "--templates", str(tmp_path / "bad")]) == 1
    assert "'hello' in line 2" in capsys.readouterr().err
    (tmp_path / "wide").write_text("U00:%x[0,5]\n")
    assert main(["train", data, model, "--templates", str(tmp_path / "wide")]) == 1
    assert "t.conll, line 1: templates: the template uses column 5" in capsys.readouterr().err
    (tmp_path / "edges").write_text("U00:%x[0,0]\nB00:%x[0,0]\n")
    more = ["--to", "crfsuite", "--templates", str(tmp_path / "edges")]
    assert main(["convert", data, str(tmp_path / "out"), *more]) == 1
    assert "features of edges" in capsys.readouterr().err


# Patterns of wapiti.


WAPITI = {
    "u:%x[0,0]": "u:the",
    "U1:%x[-1,1]/%X[0,0] # a note": "u1:VBZ/the",
    "u:%X[-2,0]": "u:he",
    "u:%x[-5,0]": "u:_x-3",
    "u:%x[-9,0]%x[9,0]": "u:_x-#_x+#",
    "u:%x[+2,1]": "u:NN",
    "u:%x[@1,0] %x[@-1,0] %x[@0,0] %x[@9,0]": "u:He account _x-1 _x+4",
    'u:%t[-2,0,"^\\u"]': "u:true",
    'u:%t[0,0,"\\u"]': "u:false",
    'u:%m[-1,0,"^.?.?.?"]': "u:rec",
    'u:%m[-1,0,"..?$"]': "u:ns",
    'u:%M[-2,0,"^\\u"]': "u:h",
    'u:%m[-1,0,"c.*n"]': "u:ckon",  # * takes as few characters as possible
    'u:%m[0,0,"\\d"]|': "u:|",
    '*:%t[0,1,"^\\U"]': "*:false",
}


@pytest.mark.parametrize("line", WAPITI)
def test_patterns_of_wapiti(line):
    found = describe_columns(SENTENCE, f"u:%x[0,0]\n{line}\nb\n")
    nodes, edges = found if line[0] == "*" else (found, None)
    assert nodes[2][1] == WAPITI[line]
    if edges is not None:
        assert edges[1] == [WAPITI[line]] and len(edges) == len(SENTENCE) - 1


def test_a_row_may_be_in_a_column():
    rows = [["a", "2"], ["b", "-1"], ["c", "x"], ["d", "9"]]
    assert describe_columns(rows, "u:%x[*1,0]") == [["u:c"], ["u:a"], ["u:c"], ["u:_x+#"]]


CLASSES = {
    "d": "[0-9]",
    "a": "[A-Za-z]",
    "l": "[a-z]",
    "u": "[A-Z]",
    "w": "[A-Za-z0-9]",
    "s": r"\s",
}
PIECES = st.sampled_from([*"aB1", ".", *(f"\\{c}" for c in CLASSES), r"\U", r"\D", "(", r"\."])


@given(
    pieces=st.lists(st.tuples(PIECES, st.sampled_from(["", "", "*", "?"])), max_size=5),
    ends=st.tuples(st.booleans(), st.booleans()),
    text=st.text(st.sampled_from("aB1(. "), max_size=6),
)
def test_expressions_match_as_those_of_python(pieces, ends, text):
    """Python's syntax for the same: * matches as few characters as possible, and others are literal."""
    own, python = "", ""
    for char, often in pieces:
        own += char + often
        known = CLASSES.get(char[-1].lower()) if char[0] == "\\" else None
        if known is not None:
            python += known if char[-1].islower() else f"(?!{known})(?:.|\\s)"
        else:
            python += "." if char == "." else re.escape(char[-1])
        if known is not None and char[-1].isupper() and often:
            python = python[: -len(f"(?!{known})(?:.|\\s)")] + f"(?:(?!{known})(?:.|\\s))"
        python += {"*": "*?", "?": "?", "": ""}[often]
    own = "^" * ends[0] + own + "$" * ends[1]
    python = "^" * ends[0] + python + r"\Z" * ends[1]
    found = re.search(python, text, re.DOTALL)
    assert Expression(own).search(text) == (found[0] if found else None)


def test_the_end_may_be_meant_itself():
    assert Expression(r"a\$").search("ba$c") == "a$" and Expression(r"a\$").search("a") is None
    assert (
        Expression(r"a\\$").search("ba\\") == "a\\" and Expression(r"a\\$").search("a\\c") is None
    )
    assert Expression("a^$b").search("a^$b") == "a^$b"


def test_no_expression_takes_long():
    assert Expression("a*" * 30 + "b").search("a" * 3000) is None


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("u:%t[0,0]", "need an expression in quotes"),
        ('u:%x[0,0,"a"]', "%x must not have one"),
        ('u:%m[0,0,"**"]', "needs a character before or after it"),
        ('u:%m[0,0,"a\\"]', "in line 2"),
        ("u:%y[0,0]", "in line 2"),
        ("x:%x[0,0]", "in line 2"),
        ("u:%x[*-1,0]", "columns count from 0"),
    ],
)
def test_what_wapiti_would_not_read_is_refused(line, words, tmp_path, capsys):
    (tmp_path / "t.conll").write_text(COLUMNS)
    (tmp_path / "patterns").write_text(f"u:%x[0,0]\n{line}\n")
    command = ["train", str(tmp_path / "t.conll"), str(tmp_path / "m")]
    assert main([*command, "--templates", str(tmp_path / "patterns")]) == 1
    said = capsys.readouterr().err
    assert words in said and "line 2" in said and "patterns:" in said


def test_from_patterns_of_wapiti_to_a_model(tmp_path, capsys):
    (tmp_path / "t.conll").write_text(COLUMNS)
    (tmp_path / "patterns").write_text(
        '*\nu:%X[0,0]\nu:%t[0,0,"^\\u"]\nb:%x[0,1]\n*:%m[0,0,"..$"]\n'
    )
    files = [str(tmp_path / name) for name in ("t.conll", "m")]
    assert main(["train", *files, "--templates", str(tmp_path / "patterns"), "--quiet"]) == 0
    capsys.readouterr()
    assert {"*", "u:dog", "u:false", "*:og"} <= set(mm.load(files[1]).feature_names_)
    assert main(["evaluate", files[1], files[0], "--json"]) == 0
    assert '"tag accuracy": 1.0' in capsys.readouterr().out

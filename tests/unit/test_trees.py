"""Trees: Penn brackets in and out, other forms, cleaning, labelled spans and bracket scores."""

import copy
import io
import pickle

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from helpers import refusal
from maxmargin.data import trees as module
from maxmargin.data.spans import bracket_f1, bracket_scores, labelled_spans
from maxmargin.data.trees import (
    ParseTree,
    TreeError,
    as_tree,
    clean,
    drop_loops,
    drop_traces,
    read_trees,
    strip_functions,
    write_trees,
)

DOG = "(S (NP (DT the) (NN dog)) (VP (VBZ barks)))"
names = st.text(
    st.characters(exclude_categories=("Cs", "Z", "Cc"), exclude_characters="()"), min_size=1
)
names = names.filter(lambda name: len(name.split()) == 1 and name.split()[0] == name)
trees = st.recursive(
    st.builds(lambda label, word: ParseTree(label, [word]), names, names),
    lambda inner: st.builds(
        ParseTree, names, st.lists(st.one_of(inner, names), min_size=1, max_size=4)
    ),
    max_leaves=12,
)


# The tree itself.


def test_a_tree_has_the_manners_of_nltk():
    tree = ParseTree.fromstring(DOG)
    assert tree.label() == "S" and len(tree) == 2
    assert tree[0].label() == "NP" and [child.label() for child in tree] == ["NP", "VP"]
    assert tree.leaves() == ["the", "dog", "barks"]
    assert tree.pos() == [("the", "DT"), ("dog", "NN"), ("barks", "VBZ")]
    assert str(tree) == DOG and eval(repr(tree), {"ParseTree": ParseTree}) == tree
    assert tree[1][0].is_tag() and not tree[1].is_tag()
    assert [node.label() for node in tree.subtrees()] == ["S", "NP", "DT", "NN", "VP", "VBZ"]


def test_trees_are_equal_by_content_and_cannot_be_changed():
    a, b = ParseTree.fromstring(DOG), as_tree(DOG)
    assert a == b and hash(a) == hash(b) and len({a, b}) == 1
    assert a != ParseTree.fromstring(DOG.replace("dog", "cat")) and a != DOG
    assert a != ParseTree("S", [*a, *a])
    with pytest.raises(AttributeError, match="cannot be changed"):
        a.name = "x"
    assert pickle.loads(pickle.dumps(a)) == a == copy.deepcopy(a)
    assert copy.copy(a) is a


@pytest.mark.parametrize(
    "label, children, words",
    [
        (3, ["x"], ["label", "3"]),
        ("S", "word", ["children", "string"]),
        ("S", [4], ["child", "int"]),
    ],
)
def test_what_is_no_tree_is_refused(label, children, words):
    with refusal(*words):
        ParseTree(label, children)


def test_depth_has_no_limit():
    depth = 5_000
    text = "(A " * depth + "(t w)" + ")" * depth
    (tree,) = read_trees(text)
    (again,) = read_trees(write_trees([tree]))
    assert tree == again and tree.leaves() == ["w"] and str(tree) == str(again)
    assert strip_functions(drop_traces(tree)) == tree
    assert labelled_spans(tree)["A", 0, 1] == depth
    nested = ["t", "w"]
    for _ in range(depth):
        nested = ["A", nested]
    assert as_tree(nested) == tree


# Brackets.


@given(st.lists(trees, max_size=4))
def test_what_is_written_is_read_again(many):
    text = write_trees(many)
    assert read_trees(text) == many
    assert read_trees(io.StringIO(text.replace(" ", "\n\t  "))) == many
    target = io.StringIO()
    assert write_trees(many, target) == target.getvalue()


@settings(max_examples=300)
@given(st.text(st.sampled_from("()ab \n#%;é"), max_size=40))
@example("(" * 5000)
@example(")" * 5000)
@example("(a " * 3000 + ")" * 2999)
def test_any_text_gives_trees_or_an_error_with_a_place(text):
    try:
        found = read_trees(text)
    except TreeError as error:
        assert str(error).startswith("line ") and "expected" in str(error)
    else:
        assert read_trees(write_trees(found)) == found


def test_outer_brackets_without_a_label():
    assert read_trees(f"( {DOG})\n\n({DOG})") == [as_tree(DOG)] * 2
    assert [tree.label() for tree in read_trees(f"( {DOG})\n{DOG}", top="TOP")] == ["TOP", "S"]
    assert read_trees("( (A (t x)) (B (t y)))", top="TOP")[0].leaves() == ["x", "y"]


def test_comments_stand_between_trees_only():
    text = f"# first\n{DOG} % after (it\n; (more)\n(X (# #) (: ;) (NN %))"
    first, second = read_trees(text)
    assert first == as_tree(DOG) and second.leaves() == ["#", ";", "%"]
    assert read_trees("") == read_trees("  # nothing here") == []


@pytest.mark.parametrize(
    "text, words",
    [
        ("(S (NP x)", ["line 1, column 10", "1 more closing", "end of the text"]),
        ("(S x))", ["line 1, column 6", "an opening bracket", r"'\)'"]),
        ("(S (A x)\n  stray)\nword", ["line 3, column 1", "opening", "'word'"]),
        ("(S ((A x)))", ["line 1, column 5", "a label", r"'\('"]),
        ("(S ())", ["line 1, column 5", "a label"]),
        ("(S\n (NP))", ["line 2, column 5", "a child"]),
        ("()", ["line 1, column 2", "a child"]),
        ("( (A x) (B y))", ["one tree", "without a label"]),
    ],
)
def test_errors_tell_line_column_what_was_expected_and_what_came(text, words):
    with refusal(*words, kinds=(TreeError,)):
        read_trees(text)


def test_reading_and_writing_refuse_what_is_no_text():
    with refusal("text", "bytes"):
        read_trees(b"(S x)")
    with refusal("one tree", "2"):
        ParseTree.fromstring("(S x) (S y)")
    for bad in (
        ParseTree("S", ["a b"]),
        ParseTree("", ["x"]),
        ParseTree("(", ["x"]),
        ParseTree("S", [ParseTree("A", [])]),
    ):
        with refusal("tree 1"):
            write_trees([as_tree(DOG), bad])
    assert write_trees([ParseTree("-LRB-", ["("])]) == "(-LRB- -LRB-)\n"


# Other forms.


@given(trees)
def test_every_form_of_a_tree_is_the_same_tree(tree):
    def nested(node):
        return node if isinstance(node, str) else [node.label(), *map(nested, node)]

    assert as_tree(tree) is tree
    assert as_tree(nested(tree)) == as_tree(tuple(nested(tree))) == tree
    assert as_tree(str(tree)) == tree


def test_a_tree_that_contains_itself_is_refused():
    loop = ["S", ["A", "x"]]
    loop.append(loop)
    with refusal("contains itself", "'S'"):
        as_tree(loop)
    part = ["A", "x"]
    assert as_tree(["S", part, part]) == as_tree("(S (A x) (A x))")


# Cleaning.


def test_cleaning_a_treebank():
    text = (
        "(S (NP-SBJ=2 (-NONE- *-1)) (VP (VBD said) (SBAR (-NONE- 0) (S-CLR (NP (NP (PRP$ its)))"
        " (-LRB- -LRB-) (ADVP|PRT x)))))"
    )
    tree = as_tree(text)
    assert str(drop_traces(as_tree("(S (NP (-NONE- *)) (VP (VB go)))"))) == "(S (VP (VB go)))"
    assert drop_traces(as_tree("(S (NP (-NONE- *)))")) is None
    assert clean(as_tree("(S (-NONE- *))")) is None
    assert str(strip_functions(as_tree("(NP-SBJ-1 (-LRB- x) (-NONE- *) (PP=2 y))"))) == (
        "(NP (-LRB- x) (-NONE- *) (PP y))"
    )
    assert str(clean(tree)) == (
        "(S (VP (VBD said) (SBAR (S (NP (PRP$ its)) (-LRB- -LRB-) (ADVP|PRT x)))))"
    )


@pytest.mark.parametrize(
    "before, after",
    [
        ("(A (B (A (C (t x)))))", "(A (C (t x)))"),
        ("(A (A (A (t x) (t y))))", "(A (t x) (t y))"),
        ("(A (B (t x)) (A (t y)))", "(A (B (t x)) (A (t y)))"),
        ("(A (B (C (B (A (t x))))))", "(A (t x))"),
    ],
)
def test_loops_of_only_children(before, after):
    assert str(drop_loops(as_tree(before))) == after


@given(trees)
def test_cleaning_twice_changes_nothing(tree):
    once = clean(tree)
    if once is not None:
        assert clean(once) == once


# Spans and scores.


def test_spans_and_scores_by_hand():
    gold = "(TOP (S (NP (D a) (N b)) (VP (V c) (NP (N d)))))"
    found = "(TOP (S (NP (D a)) (VP (N b) (V c) (NP (N d)))))"
    assert labelled_spans(as_tree(gold)) == {
        ("TOP", 0, 4): 1,
        ("S", 0, 4): 1,
        ("NP", 0, 2): 1,
        ("VP", 2, 4): 1,
        ("NP", 3, 4): 1,
    }
    scores = bracket_scores([gold], [found])
    assert (scores.matched, scores.gold, scores.predicted) == (3, 5, 5)
    assert bracket_scores([gold], [found], root=False).matched == 2
    twice = bracket_scores([gold, gold], [found, gold])
    assert twice.precision == twice.recall == twice.f1 == 0.8 and twice.exact == 0.5
    assert bracket_f1([gold], [gold], root=False) == 1.0
    flat = bracket_scores([gold], ["(TOP (D a) (N b) (V c) (N d))"])
    assert (flat.precision, flat.recall) == (1.0, 0.2)
    assert flat.f1 == pytest.approx(1 / 3)


def test_scores_of_nothing_and_of_other_words():
    assert bracket_f1(["(N dog)"], ["(V dog)"]) == 1.0  # tags are not phrases
    assert bracket_f1([], []) == 1.0
    with refusal("tree 1", "different words", "'b'", "'c'"):
        bracket_scores(["(N a)", "(N b)"], ["(N a)", "(N c)"])
    with refusal("2 true trees", "1 predicted"):
        bracket_scores(["(N a)", "(N b)"], ["(N a)"])


@given(trees)
def test_a_repeated_span_counts_each_time(tree):
    spans = labelled_spans(tree)
    assert spans.total() == sum(not node.is_tag() for node in tree.subtrees())
    doubled = ParseTree("TOP", [ParseTree("TOP", [tree])])
    assert labelled_spans(doubled, root=False) == spans + type(spans)(
        {("TOP", 0, len(tree.leaves())): 1}
    )


def test_deep_trees_are_pickled_and_copied():
    tree = ParseTree("N", ["x"])
    for depth in range(5000):
        tree = ParseTree("S", [ParseTree("N", [str(depth)]), tree])
    again = pickle.loads(pickle.dumps(tree))
    assert again == tree
    assert str(again) == str(tree)
    assert copy.deepcopy(tree) is tree


def test_the_old_name_warns():
    with pytest.warns(FutureWarning, match="ParseTree"):
        assert module.Tree is ParseTree
    with pytest.raises(AttributeError, match="Shrub"):
        module.Shrub

"""Costs of mistakes in the forms that users give: parts of a dict, functions, missed entities."""

import numpy as np
import pytest

import maxmargin as mm
from maxmargin import losses, metrics, models

TAGS = np.array(["B-PER", "I-PER", "O"])


def test_labels_that_a_dict_does_not_name_cost_one():
    assert losses.mistake_costs({"O": 3}, TAGS).tolist() == [1, 1, 3]
    assert losses.mistake_costs({}, TAGS).tolist() == [1, 1, 1]
    svm = mm.StructuralSVM(models.Chain(loss={"b": 4})).fit([np.eye(3)], [list("abc")])
    assert svm.model_.loss(list("abc"), list("cca")) == 1 + 4 + 1


def test_costs_for_labels_that_are_not_there_are_refused():
    with pytest.raises(ValueError, match=r"costs are given for \['B-Per'\].*classes="):
        losses.mistake_costs({"B-Per": 3}, TAGS)


def test_costs_may_be_a_function_of_the_labels():
    loss = losses.Hamming(costs=lambda classes: [len(label) for label in classes])
    model = models.Chain(loss=loss)
    model.initialize([np.eye(2)], [["a", "bb"]])
    assert model.loss(["bb", "a"], ["a", "bb"]) == 3


def test_entity_costs():
    cost = losses.Entity(miss=5.0, alarm=2.0).costs(TAGS)
    assert cost.tolist() == [[0, 1, 5], [1, 0, 5], [2, 2, 0]]
    other = losses.Entity(outside="-").costs(np.array(["-", "B", "I"]))
    assert other.tolist() == [[0, 1, 1], [2, 0, 1], [2, 1, 0]]
    with pytest.raises(ValueError, match="'O' outside of entities, which is not among the labels"):
        losses.Entity().costs(np.array(["a", "b"]))
    for name in ("miss", "alarm"):
        with pytest.raises(ValueError, match=f"Entity: {name} must be a positive number"):
            losses.Entity(**{name: 0})


@pytest.mark.parametrize("loss", ["entity", losses.Entity(), losses.Entity(mean=True)])
def test_entity_in_a_chain(loss, tmp_path):
    X, Y = [np.eye(3)], [TAGS.tolist()]
    svm = mm.StructuralSVM(models.Chain(loss=loss)).fit(X, Y)
    length = 3 if getattr(loss, "mean", False) else 1
    assert svm.model_.loss(TAGS, ["O", "O", "O"]) == pytest.approx(4 / length)
    svm.save(tmp_path / "model")
    again = mm.load(tmp_path / "model").model_
    assert again.loss(TAGS, ["O", "O", "O"]) == pytest.approx(4 / length)


def rare(n, generator):
    """Return noisy sequences of tags, few of which are entities."""
    Y = [np.where(generator.random(12) < 0.12, "B-X", "O") for _ in range(n)]
    means = [2.0 * (y == "B-X") for y in Y]
    return [np.column_stack([m + generator.normal(size=12), np.ones(12)]) for m in means], Y


def test_entities_are_found_more_often_the_more_a_miss_costs(seed):
    generator = np.random.default_rng([seed, 71])
    (X, Y), (X_new, Y_new) = rare(150, generator), rare(300, generator)
    recalls = []
    for miss in (1.0, 4.0, 12.0):
        chain = models.Chain(loss=losses.Entity(miss=miss))
        svm = mm.StructuralSVM(chain, C=1.0, tol=0.05, random_state=0).fit(X, Y)
        recalls.append(metrics.entity_recall_score(Y_new, svm.predict(X_new)))
    assert recalls[0] < recalls[1] < recalls[2]


def test_a_miss_that_costs_one_is_the_hamming_loss(generator):
    X, Y = rare(10, generator)
    same = [
        mm.StructuralSVM(models.Chain(loss=loss), C=0.1, tol=1e-6, random_state=0).fit(X, Y)
        for loss in ("hamming", losses.Entity(miss=1.0))
    ]
    np.testing.assert_allclose(same[0].certificate_.primal, same[1].certificate_.primal, rtol=1e-4)

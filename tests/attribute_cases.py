"""Rows of attributes beside those that were expected."""


def assert_same(found, expected):
    """The same matrices; zeros that the twin stores are left out."""
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        other.eliminate_zeros()
        assert one.shape == other.shape and one.dtype == other.dtype
        for part in ("data", "indices", "indptr"):
            left, right = getattr(one, part), getattr(other, part)
            assert left.dtype == right.dtype and left.tobytes() == right.tobytes()

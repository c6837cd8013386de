"""hierarchyid: paths and bytes are one another's inverse, and sort alike."""

from hypothesis import example, given
from hypothesis import strategies as st

from tailrace_emulator.values.hierarchy import BYTES_MAX, parsed, shown

EDGES = (-281479271682120, -4294971465, -4294971464, -4169, -4168, -73, -72, -9, -8, -1, 0, 3, 4, 7,
         8, 15, 16, 79, 80, 1103, 1104, 5199, 5200, 4294972495, 4294972496,
         281479271683150)  # fmt: skip
LABELS = st.one_of(
    st.sampled_from(EDGES), st.integers(-6000, 6000), st.integers(EDGES[0], EDGES[-1])
)
PATHS = st.lists(st.lists(LABELS, min_size=1, max_size=3), max_size=5)


def text(path):
    return "/" + "".join(".".join(map(str, level)) + "/" for level in path)


@given(PATHS)
@example([[-1], [98]])
@example([[3, 0]])
def test_a_path_is_read_back(path):
    raw = parsed(text(path))
    assert raw is not None
    assert shown(raw) == text(path)


@given(PATHS, PATHS)
@example([[1]], [[1], [0]])
@example([[1]], [[1, 1]])
@example([[1, -5]], [[1, 1]])
@example([[-9]], [[-8]])
def test_bytes_sort_as_the_paths_do(left, right):
    """Depth first: a node before its descendants, siblings by their labels, 1 < 1.x < 2."""
    raws = parsed(text(left)), parsed(text(right))
    assert (raws[0] < raws[1]) == (_order(left) < _order(right))
    assert (raws[0] == raws[1]) == (left == right)


def _order(path):
    """A dotted label comes after its beginning and all of that one's descendants."""
    return [[(label, 1) for label in level[:-1]] + [(level[-1], 0)] for level in path]


@given(st.binary(max_size=BYTES_MAX))
def test_any_bytes_are_a_path_or_none(raw):
    path = shown(raw)
    if path is not None:
        again = parsed(path)
        assert again is None or again == raw.rstrip(b"\0") or shown(again) == path

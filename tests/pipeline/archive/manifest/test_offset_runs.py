from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tailrace.pipeline.archive.manifest.offset_runs import Run, common, count, merged, runs_of, runs_text, without

_SETS = st.frozensets(st.integers(0, 40))


def _runs(offsets: frozenset[int]) -> list[Run]:
    return runs_of(np.array(sorted(offsets), dtype=np.int64))


def _offsets(runs: list[Run]) -> list[int]:
    return [offset for first, last in runs for offset in range(first, last + 1)]


@given(_SETS)
def test_runs_hold_the_offsets_that_they_were_made_of(offsets: frozenset[int]) -> None:
    runs = _runs(offsets)
    assert _offsets(runs) == sorted(offsets)
    assert count(runs) == len(offsets)
    assert all(later[0] > earlier[1] + 1 for earlier, later in pairwise(runs))


@given(_SETS, _SETS)
def test_runs_behave_like_sets(one: frozenset[int], other: frozenset[int]) -> None:
    assert _offsets(without(_runs(one), _runs(other))) == sorted(one - other)
    assert common(_runs(one), _runs(other)) == _runs(one & other)
    assert merged([*_runs(other), *_runs(one)]) == (_runs(one | other), _runs(one & other))


def test_an_offset_that_occurs_three_times_is_named_once() -> None:
    assert merged([(1, 5), (2, 9), (3, 3)]) == ([(1, 9)], [(2, 5)])


def test_text_names_the_first_runs() -> None:
    assert runs_text([(3, 3)]) == "offset 3"
    assert runs_text([(3, 7), (9, 9)]) == "offsets 3 to 7, 9"
    assert runs_text([(0, 0), (2, 2), (4, 4), (6, 6), (8, 8)]) == "offsets 0, 2, 4 and 2 more runs"

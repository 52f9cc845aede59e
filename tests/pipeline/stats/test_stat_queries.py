"""Tests what the queries are made of; compat_tests/spark/test_stats.py runs them."""

from collections.abc import Mapping

import pytest

from tailrace.pipeline.stats.stat_queries import EntryQueries


class _Row(dict[str, object]):
    def asDict(self) -> Mapping[str, object]:  # noqa: N802 - as PySpark calls it
        return self


class _Session:
    """Keeps the query, and returns a row of each grouping set."""

    def __init__(self) -> None:
        self.query = ""

    def sql(self, query: str, **frames: object) -> "_Session":
        self.query = query
        return self

    def collect(self) -> list[_Row]:
        return [_Row(kind=kind) for kind in (0b000111, 0b011011, 0b011101, 0b011110)]


def test_rows_are_told_apart_by_their_grouping_set() -> None:
    session = _Session()
    found = EntryQueries(session, None).shapes({"a": 60, "b": 1}, [("a", 3)])  # type: ignore[arg-type]
    assert {name: len(rows) for name, rows in found.items()} == {"slot": 1, "codec": 1, "records": 1, "bytes": 1}
    assert "element_at(map('a', 60, 'b', 1), topic)" in session.query
    assert "IN ('3/a')" in session.query


def test_a_name_that_would_change_the_query_is_refused() -> None:
    with pytest.raises(ValueError, match="is no name of a topic"):
        EntryQueries(_Session(), None).shapes({"a'b": 60}, [])  # type: ignore[arg-type]

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from archive_files import DATE, NEXT_DATE, archived_rows, write_chunk
from msgspec.structs import replace
from written_archives import SampleArchive

from tailrace.pipeline.archive.chunks.archive_reading import archive_rows
from tailrace.pipeline.archive.manifest.archive_manifest import Chunk
from tailrace.pipeline.archive.manifest.rollup_sums import add
from tailrace.pipeline.archive.proofs.chunk_checking import prove_chunk
from tailrace.pipeline.archive.upkeep.chunk_merging import (
    MergeTask,
    StoredRows,
    merge_chunks,
    pieces_of,
    widened,
    with_fields_of_both,
)
from tailrace.pipeline.archive.upkeep.compaction_planning import Merge
from tailrace.pipeline.jobs.job_errors import JobError
from tailrace.pipeline.schemas.value_schemas import ValueSchema


def _neighbours(root: Path) -> tuple[Chunk, ...]:
    """Writes three chunks with gaps at their borders and two dates that take turns."""
    return (
        write_chunk(root, 0, 10, {DATE: archived_rows([1, 3, 5]), NEXT_DATE: archived_rows([2, 4], date=NEXT_DATE)}),
        write_chunk(root, 10, 14, {}),
        write_chunk(root, 14, 20, {DATE: archived_rows(range(15, 19))}),
    )


def test_chunks_become_one_with_one_file_for_each_date(tmp_path: Path) -> None:
    chunks = _neighbours(tmp_path)
    (merged,) = merge_chunks(MergeTask(str(tmp_path), Merge(chunks))).chunks
    merged.check()
    assert (merged.start, merged.end, merged.records) == (0, 20, 9)
    assert merged.rollup == add(*(each.rollup for each in chunks))
    assert [(each.date, each.first, each.last, each.records) for each in merged.files] == [
        (DATE, 1, 18, 7),
        (NEXT_DATE, 2, 4, 2),
    ]
    assert [(gap.first, gap.last) for gap in merged.gaps] == [(0, 0), (6, 14), (19, 19)]
    assert prove_chunk(str(tmp_path), merged, None).problems == ()
    rows = [row for batch in archive_rows(str(tmp_path), merged) for row in batch.to_pylist()]
    before = [row for chunk in chunks for batch in archive_rows(str(tmp_path), chunk) for row in batch.to_pylist()]
    assert rows == before
    assert all((tmp_path / file.path).exists() for chunk in chunks for file in chunk.files)


def test_a_chunk_in_pieces_covers_each_of_its_offsets(tmp_path: Path) -> None:
    for chunk in _neighbours(tmp_path):
        pieces = list(pieces_of(str(tmp_path), chunk))
        assert [each.start for each in pieces] == [chunk.start, *(each.end for each in pieces[:-1])]
        assert pieces[-1].end == chunk.end
        gaps = [(gap.first, gap.last) for piece in pieces for gap in piece.gaps]
        assert sorted(gaps) == [(gap.first, gap.last) for gap in chunk.gaps]


def test_damage_is_not_hidden_by_a_merge(tmp_path: Path) -> None:
    first, *others = _neighbours(tmp_path)
    forged = replace(first, rollup=first.rollup + 1)
    before = set(tmp_path.rglob("*.parquet"))
    with pytest.raises(JobError, match=r"the files of orders/0 do not hold what the manifest says .* 0 to 19: `tailr"):
        merge_chunks(MergeTask(str(tmp_path), Merge((forged, *others))))
    assert set(tmp_path.rglob("*.parquet")) == before


def test_rows_without_a_time_stay_without_one() -> None:
    rows = archived_rows([0, 1])
    times = rows["timestamp"].to_pylist()
    column = rows.schema.get_field_index("timestamp")
    one = rows.set_column(column, rows.schema.field("timestamp"), [[times[0], None]])
    assert np.array_equal(StoredRows(one.to_batches()[0]).timestamps(), [round(times[0].timestamp() * 1000), -1])


def test_columns_of_values_survive_a_merge(tmp_path: Path) -> None:
    archive = SampleArchive(tmp_path)
    kinds = ("", "string", "long", "long")
    chunks = tuple(archive.add([offset], _schema(kind)) for offset, kind in enumerate(kinds))
    (merged,) = merge_chunks(MergeTask(str(tmp_path), Merge(chunks))).chunks
    assert merged.rollup == add(*(each.rollup for each in chunks))
    columns = ("offset", "value", "data", "dataError")
    rows = [row for batch in archive_rows(str(tmp_path), merged, columns) for row in batch.to_pylist()]
    assert [row["value"] for row in rows] == [b"value-%d" % offset for offset in range(4)]
    assert rows[0]["dataError"] is None, "without a schema nothing was decoded"
    assert rows[1]["dataError"].startswith("the value was decoded by a schema with other types")
    assert rows[2]["dataError"].startswith("JSON is malformed")
    (raw,) = merge_chunks(MergeTask(str(tmp_path), Merge(chunks[:1]))).chunks
    assert "data" not in pq.read_schema(tmp_path / raw.files[0].path).names


def test_a_new_field_takes_nothing_from_older_values(tmp_path: Path) -> None:
    archive = SampleArchive(tmp_path)
    both = ValueSchema("json", '{"type":"struct","fields":[{"name":"id","type":"long"},{"name":"b","type":"long"}]}')
    chunks = (archive.add([0], _schema("long")), archive.add([1], both), archive.add([2], _schema("long", "b")))
    (merged,) = merge_chunks(MergeTask(str(tmp_path), Merge(chunks))).chunks
    rows = [row for batch in archive_rows(str(tmp_path), merged, ("data", "dataError")) for row in batch.to_pylist()]
    assert all(row["dataError"].startswith("JSON is malformed") for row in rows)
    kind = pq.read_schema(tmp_path / merged.files[0].path).field("data").type
    assert kind == pa.struct([("id", pa.int64()), ("b", pa.int64())])


def test_inner_types_have_the_fields_of_both_or_are_other_types() -> None:
    def kind(inner: Any) -> Any:
        element = pa.list_(pa.field("element", inner))
        return pa.struct([("many", element), ("each", pa.map_(pa.string(), inner))])

    a, b = pa.struct([("a", pa.int64())]), pa.struct([("b", pa.string())])
    assert with_fields_of_both(kind(a), kind(b)) == kind(pa.struct([("a", pa.int64()), ("b", pa.string())]))
    assert with_fields_of_both(kind(a), kind(pa.struct([("a", pa.int32())]))) is None
    assert with_fields_of_both(pa.int64(), pa.string()) is None
    wide = kind(pa.struct([("b", pa.string()), ("a", pa.int64())]))
    rows = [
        {"many": None, "each": None},
        None,
        {"many": [{"a": 1}, None], "each": [("k", {"a": 2}), ("l", None)]},
        {"many": [], "each": []},
        {"many": [{"a": 3}], "each": [("m", {"a": 4})]},
    ]
    for start in range(3):
        found = widened(pa.array(rows, kind(a))[start:], wide)
        found.validate(full=True)
        assert found.type == wide
        assert found.to_pylist() == pa.array(rows[start:], wide).to_pylist()


def _schema(kind: str, name: str = "id") -> ValueSchema | None:
    field = f'{{"name":"{name}","type":"{kind}","nullable":true}}'
    return ValueSchema("json", f'{{"type":"struct","fields":[{field}]}}') if kind else None

from pathlib import Path

import pytest

from tailrace.trigger.functions.function_source import (
    FunctionLoadError,
    FunctionSource,
    read_source,
    source_of,
    with_snapshot,
)


def test_a_target_is_a_file_and_perhaps_a_function() -> None:
    assert source_of("/a/billing.py") == FunctionSource("/a/billing.py")
    assert source_of("/a/billing.py:bill") == FunctionSource("/a/billing.py", "bill")


def test_a_file_whose_name_has_a_colon_is_still_a_file(tmp_path: Path) -> None:
    odd = tmp_path / "a:b"
    odd.write_text("")
    assert source_of(str(odd)) == FunctionSource(str(odd))


def test_a_missing_file_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(FunctionLoadError, match=r"none.py: the file cannot be read: No such file or directory$"):
        read_source(FunctionSource(str(tmp_path / "none.py")))


def test_a_file_in_another_encoding_says_so(tmp_path: Path) -> None:
    path = tmp_path / "latin.py"
    path.write_bytes(b"name = '\xe9'\n")
    with pytest.raises(FunctionLoadError, match="the file is not text in its encoding"):
        read_source(FunctionSource(str(path)))
    path.write_bytes(b"# coding: latin-1\nname = '\xe9'\n")
    assert "é" in read_source(FunctionSource(str(path)))


def test_a_snapshot_outlives_the_file(tmp_path: Path) -> None:
    path = tmp_path / "billing.py"
    path.write_text("one = 1\n")
    source = with_snapshot(FunctionSource(str(path), "bill"))
    path.unlink()
    assert read_source(source) == "one = 1\n"
    assert (source.handler, source.import_directory) == ("bill", str(tmp_path))

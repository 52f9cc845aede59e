"""Finders of zips are dropped, and imports still work. The collector of garbage leaves out what modules have."""

import gc
import importlib
import sys
import zipfile
from pathlib import Path

import pytest

from tailrace.pipeline.jobs.worker_reuse import drop_zip_finders, freeze_modules


def test_a_zip_is_not_read_again_and_its_modules_are_still_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "given.zip")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("given_package/__init__.py", "")
        archive.writestr("given_package/first.py", "")
        archive.writestr("given_package/second.py", "")
    monkeypatch.syspath_prepend(path)
    importlib.import_module("given_package.first")
    assert _finders(path)
    drop_zip_finders()
    assert not _finders(path)
    importlib.import_module("given_package.second")
    assert _finders(path)
    assert any(not name.startswith(path) for name in sys.path_importer_cache), "finders of directories stay"


def test_collections_of_garbage_skip_what_the_first_task_has_imported() -> None:
    gc.unfreeze()
    try:
        freeze_modules()
        frozen = gc.get_freeze_count()
        assert frozen > len(gc.get_objects())
        later: list[list[int]] = [[] for _ in range(1000)]
        freeze_modules()
        assert gc.get_freeze_count() <= frozen, "only the first task freezes"
        assert gc.is_tracked(later)
    finally:
        gc.unfreeze()


def _finders(path: str) -> list[str]:
    return [name for name in sys.path_importer_cache if name.startswith(path)]

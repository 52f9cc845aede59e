"""What the files on a simulated disk show about shelves."""

from uuid import UUID

import pytest
from batch_samples import make_batch
from simulation.files import SimulatedFiles
from simulation.shelf_files import batches_of, below_data, is_of_shelf, is_whole_on
from simulation.world import DATA_DIRECTORY

from tailrace.storage.directory.layout import Kind, ShelfKey, file_name, shelf_directory

KEY = ShelfKey(UUID(int=7), 1, 10)


@pytest.fixture
def files() -> SimulatedFiles:
    """Two segments with a gap between them, each with a batch of one record."""
    files, directory = SimulatedFiles(), shelf_directory(DATA_DIRECTORY, KEY)
    files.make_directories(directory)
    for base in (10, 12):
        files.open(f"{directory}/{file_name(base, Kind.LOG)}", create=True).append(bytes(make_batch(base)))
        files.open(f"{directory}/{file_name(base, Kind.INDEX)}", create=True).append(b"x")
    return files


def test_a_disk_has_or_lacks_a_range_of_a_shelf(files: SimulatedFiles) -> None:
    assert {(base, end) for base, end, _ in batches_of(files, KEY)} == {(10, 11), (12, 13)}
    assert is_whole_on(files, KEY, 10, 11)
    assert is_whole_on(files, KEY, 12, 13)
    assert not is_whole_on(files, KEY, 10, 13)
    assert not is_whole_on(files, KEY, 12, 14)
    assert not is_whole_on(SimulatedFiles(), KEY, 10, 11)


def test_paths_below_the_shelves_directory_belong_to_shelves(files: SimulatedFiles) -> None:
    assert all(is_of_shelf(path) for path in files.paths())
    assert not is_of_shelf(f"{DATA_DIRECTORY}/topics/t/7/0/{file_name(0, Kind.LOG)}")
    assert f"{DATA_DIRECTORY}/{below_data(KEY)}" == shelf_directory(DATA_DIRECTORY, KEY)

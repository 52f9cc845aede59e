"""The cluster of the fault runs of jobs on Spark."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from spu_cluster import SeparateCluster


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[SeparateCluster]:
    """Yields a cluster with a process for each SPU, which must be able to stop in the end."""
    made = SeparateCluster(tmp_path / "cluster")
    try:
        made.start()
        yield made
        made.stop()
    finally:
        made.kill()

import pytest
from simulation.files import SimulatedFiles


@pytest.fixture
async def files() -> SimulatedFiles:
    files = SimulatedFiles()
    files.make_directories("/data")
    await files.sync_directory("")
    return files

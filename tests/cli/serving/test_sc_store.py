from pathlib import Path

import pytest
import structlog
import trio
from structlog.testing import capture_logs

from tailrace.cli.serving.sc_store import opened_store
from tailrace.cli.serving.serving import CannotServeError
from tailrace.controller.key_value.interface import Put
from tailrace.runtime.network import Address
from tailrace.runtime.seams import Seams, real_seams

LOGGER = structlog.get_logger()


@pytest.fixture
def seams() -> Seams:
    return real_seams(send_buffer_bytes=0)


async def test_a_store_is_made_and_found_again(tmp_path: Path, seams: Seams) -> None:
    directory = str(tmp_path / "new" / "sc")
    async with opened_store("sqlite", directory, seams, LOGGER) as store:
        assert await store.write([Put("key", b"value", 0)]) != [None]
    async with opened_store("sqlite", directory, seams, LOGGER) as store:
        found = await store.get("key")
    assert found is not None
    assert found.value == b"value"


async def test_nobody_else_serves_the_directory_meanwhile(tmp_path: Path, seams: Seams) -> None:
    async with opened_store("memory", str(tmp_path), seams, LOGGER):
        with pytest.raises(CannotServeError, match=r"is in use by process [0-9]+ "):
            async with opened_store("memory", str(tmp_path), seams, LOGGER):
                pass


async def test_what_is_no_directory_and_what_is_no_store_are_named(tmp_path: Path, seams: Seams) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CannotServeError, match=r"/file/sc: Not a directory; choose another directory with --data$"):
        async with opened_store("memory", str(tmp_path / "file" / "sc"), seams, LOGGER):
            pass
    (tmp_path / "store.sqlite").write_text("nothing that SQLite wrote, and long enough to be looked at" * 10)
    with pytest.raises(CannotServeError, match=r"store\.sqlite"):
        async with opened_store("sqlite", str(tmp_path), seams, LOGGER):
            pass


async def test_a_server_that_does_not_answer_is_waited_for_but_not_forever(
    tmp_path: Path, seams: Seams, autojump_clock: trio.testing.MockClock
) -> None:
    probe = await seams.network.listen(Address("127.0.0.1", 0))
    nobody = f"etcd://{probe.address}"
    probe.close()
    began = trio.current_time()
    with capture_logs() as logs, pytest.raises(CannotServeError, match="has not answered for 60 seconds: "):
        async with opened_store(nobody, str(tmp_path), seams, structlog.get_logger()):
            pass
    assert trio.current_time() - began >= 60
    assert [log["event"] for log in logs] == ["store_unavailable"], "the same reason is said once"

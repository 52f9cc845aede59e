"""Tests the head in the store of a whole SC."""

import pytest
import trio
from archive_samples import ARCHIVE, TOPIC_ID
from msgspec.structs import replace
from public_sc import ADDRESS, public_sc

from tailrace.client.sc_client import ScClient
from tailrace.client.server_connection import RefusedError
from tailrace.pipeline.archive.manifest.archive_manifest import Head, Link, ManifestError, encode
from tailrace.pipeline.archive.stores.sc_manifest_store import ScManifestStore
from tailrace.pipeline.jobs.job_errors import JobError
from tailrace.protocol.error_codes import ErrorCode
from tailrace.runtime.settings import SettingsError

STORE = ScManifestStore(ARCHIVE, [str(ADDRESS)])


def head(seq: int, who: int = 0) -> Head:
    return Head(ARCHIVE.id, seq, Link(f"{seq:010d}-{who:08x}.json", "0" * 64), {TOPIC_ID: {0: seq}})


async def test_of_several_writers_one_succeeds() -> None:
    async with public_sc() as sc:
        assert await STORE.read_from(ScClient(sc.network, [ADDRESS])) == (0, None)
        for seq in range(5):
            done: dict[int, bool] = {}

            async def commit(who: int, seq: int = seq, done: dict[int, bool] = done) -> None:
                client = ScClient(sc.network, [ADDRESS])
                done[who] = await STORE.commit_at(client, seq, head(seq + 1, who))
                client.close()

            async with trio.open_nursery() as nursery:
                for who in range(3):
                    nursery.start_soon(commit, who)
            (winner,) = [who for who, is_done in done.items() if is_done]
            assert (await STORE.read_from(ScClient(sc.network, [ADDRESS])))[1] == head(seq + 1, winner)


class LateClient:
    """A client whose write took effect, or did not, before it timed out."""

    def __init__(self, is_written: bool, code: int = ErrorCode.REQUEST_TIMED_OUT) -> None:
        self.is_written = is_written
        self.code = code
        self.stored: tuple[int, str | None] = (0, None)

    async def read_archive_head(self, archive: str) -> tuple[int, str | None]:
        await trio.lowlevel.checkpoint()
        return self.stored

    async def write_archive_head(self, archive: str, expected_version: int, text: str) -> int:
        await trio.lowlevel.checkpoint()
        if self.is_written:
            self.stored = (7, text)
        raise RefusedError("too late", self.code)


async def test_a_write_that_timed_out_may_have_succeeded() -> None:
    assert await STORE.commit_at(LateClient(is_written=True), 0, head(1))  # type: ignore[arg-type]
    with pytest.raises(RefusedError, match="too late"):
        await STORE.commit_at(LateClient(is_written=False), 0, head(1))  # type: ignore[arg-type]
    with pytest.raises(RefusedError, match="too late"):
        await STORE.commit_at(LateClient(True, ErrorCode.POLICY_VIOLATION), 0, head(1))  # type: ignore[arg-type]


async def test_a_commit_on_which_another_writer_has_built_is_not_called_lost() -> None:
    class Overtaken(LateClient):
        """A client whose write took effect, and whose head has a successor before the client looks again."""

        async def write_archive_head(self, archive: str, expected_version: int, text: str) -> int:
            try:
                return await super().write_archive_head(archive, expected_version, text)
            finally:
                self.stored = (8, encode(head(2)).decode())

    client = Overtaken(True, ErrorCode.INVALID_UPDATE_VERSION)
    with pytest.raises(JobError, match="it is unknown whether commit 1 took effect: run the job again"):
        await STORE.commit_at(client, 0, head(1))  # type: ignore[arg-type]


async def test_a_head_of_another_archive_is_refused() -> None:
    client = LateClient(is_written=False)
    client.stored = (1, encode(replace(head(1), archive="another")).decode())
    with pytest.raises(ManifestError, match="in the store of the SC is damaged: it belongs to archive another"):
        await STORE.read_from(client)  # type: ignore[arg-type]


def test_an_sc_that_is_not_there_is_one_sentence() -> None:
    with pytest.raises(JobError, match=r"is in the store of the SC: the SC at 127.0.0.1:1 does not answer"):
        ScManifestStore(ARCHIVE, ["127.0.0.1:1"]).read()
    with pytest.raises(JobError, match="--sc"):
        ScManifestStore(ARCHIVE, ["nowhere"])


def test_the_client_logs_in_as_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAILRACE_CLIENT_CONFIG", "/missing.properties")
    with pytest.raises(SettingsError, match=r"^/missing.properties"):
        STORE.read()

"""The head of an archive in the store of a Streaming Controller (SC), which compares and sets it.

So the writers of an archive need no file system that creates files exclusively.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import trio

from tailrace.client.client_network import client_network
from tailrace.client.sc_client import SC, ScClient
from tailrace.client.server_connection import RefusedError, UnreachableError
from tailrace.pipeline.archive.manifest.archive_manifest import Archive, Head, ManifestError, decode, encode
from tailrace.pipeline.jobs.job_errors import JobError, ServerSilentError
from tailrace.protocol.error_codes import ErrorCode
from tailrace.runtime.settings import SettingsError, parse_address

T = TypeVar("T")


class ScManifestStore:
    """The head of one archive."""

    def __init__(self, archive: Archive, addresses: Sequence[str]) -> None:
        """`addresses`: the public addresses of the SC and its standbys. Raises JobError."""
        try:
            self._addresses = [parse_address(each, "--sc") for each in addresses]
        except SettingsError as error:
            raise JobError(str(error)) from None
        self._archive = archive

    def read(self) -> Head | None:
        """Returns the head; None before the first commit. Raises JobError and ManifestError."""
        return self._asked(self.read_from)[1]

    def commit(self, expected_seq: int, head: Head) -> bool:
        """Makes this the head if the head's number is still `expected_seq`. Raises JobError and ManifestError."""

        async def commit(sc: ScClient) -> bool:
            return await self.commit_at(sc, expected_seq, head)

        return self._asked(commit)

    async def read_from(self, sc: ScClient) -> tuple[int, Head | None]:
        """Reads the version of the head in the store, and the head. Raises RefusedError and UnreachableError."""
        version, text = await sc.read_archive_head(self._archive.id)
        where = f"the head of archive {self._archive.id} in the store of the SC"
        head = None if text is None else decode(text.encode(), Head, where)
        if head is not None and head.archive != self._archive.id:
            raise ManifestError(f"{where} is damaged: it belongs to archive {head.archive}")
        return version, head

    async def commit_at(self, sc: ScClient, expected_seq: int, head: Head) -> bool:
        """Compares and sets. Raises RefusedError, UnreachableError and JobError."""
        version, known = await self.read_from(sc)
        if (known.seq if known is not None else 0) != expected_seq:
            return False
        try:
            await sc.write_archive_head(self._archive.id, version, encode(head).decode())
        except RefusedError as error:
            if error.code not in (ErrorCode.INVALID_UPDATE_VERSION, ErrorCode.REQUEST_TIMED_OUT):
                raise
            # A write that timed out may have succeeded.
            _, known = await self.read_from(sc)
            if known is None or known.seq < head.seq:
                raise
            if known.seq > head.seq:
                # Perhaps others built on this commit. Then its files must stay.
                raise JobError(
                    f"others have committed to archive {self._archive.id} at the same time, and it is unknown whether "
                    f"commit {head.seq} took effect: run the job again"
                ) from error
            return known == head
        return True

    def _asked(self, ask: Callable[[ScClient], Awaitable[T]]) -> T:
        async def with_client() -> T:
            sc = ScClient(client_network(), self._addresses, SC)
            try:
                return await ask(sc)
            finally:
                sc.close()

        try:
            return trio.run(with_client)
        except UnreachableError as error:
            raise ServerSilentError(f"the head of the archive is in the store of the SC: {error}") from error
        except RefusedError as error:
            raise JobError(f"the head of the archive is in the store of the SC: {error}") from error

"""Carries out the requests of archives: reads and writes of their heads by compare-and-set."""

from uuid import UUID

from tailrace.controller.objects.objects import ArchiveHead
from tailrace.controller.state.actions import Put
from tailrace.controller.state.local_store import LocalStore
from tailrace.protocol.error_codes import ErrorCode, KafkaError

from .planned_changes import ChangeWriter, Deadlines, Planned, plan_each, result_or_raise

WRITE_MS_MAX = 5_000
"""How long a write waits for the store. A writer that waits longer reads the head again."""
HEAD_CHARACTERS_MAX = 512 * 1024
ARCHIVES_MAX = 1000
"""How many archives may have their heads in the store. Each head is in the memory of the SC."""


class ArchiveRequests:
    """Carries out requests of archives. Every call raises KafkaError if the request is refused."""

    def __init__(self, writer: ChangeWriter, local: LocalStore) -> None:
        self._writer = writer
        self._local = local

    def read(self, archive: str) -> ArchiveHead | None:
        """Returns the head of an archive; None if it has none."""
        return self._local.archives.get(archive)

    async def write(self, archive: str, expected_version: int, text: str) -> int:
        """Writes a head if the store still has the expected version, 0 for none. Returns the new version."""
        self._check(archive, text)

        def plan(head: ArchiveHead) -> Planned[None]:
            known = self._local.archives.get(archive)
            if expected_version != (0 if known is None else known.version):
                raise _changed(archive)
            return Planned(None, (Put(head),))

        head = ArchiveHead(archive, text, expected_version)
        result_or_raise((await self._writer.write([head], plan_each(plan), Deadlines(WRITE_MS_MAX)))[0])
        written = self._local.archives.get(archive)
        if written is None or written.text != text:  # another writer has changed it since the write
            raise _changed(archive)
        return written.version

    def _check(self, archive: str, text: str) -> None:
        try:
            is_id = str(UUID(archive)) == archive
        except ValueError:
            is_id = False
        if not is_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{archive!r:.300} is not the id of an archive")
        if len(text) > HEAD_CHARACTERS_MAX:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"the head of archive {archive} has {len(text)} characters, more than {HEAD_CHARACTERS_MAX}",
            )
        if archive not in self._local.archives and len(self._local.archives) >= ARCHIVES_MAX:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION,
                f"the store has the heads of {ARCHIVES_MAX} archives, and takes no more: begin this archive without "
                "--sc, so that its head lives beside its files",
            )


def _changed(archive: str) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_UPDATE_VERSION, f"the head of archive {archive} has been changed by another writer"
    )

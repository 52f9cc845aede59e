"""Copies the audit log of a server to a topic, in a task of its own, which nothing waits for.

The lines in the topic are those of the files, with the same chain and signatures. The key of a record says which
server has written the line, and has the public key of its signatures. All lines go to partition 0, so that they stay in
order. If the topic is unavailable, lines wait in the files of the log.
"""

from collections.abc import Awaitable, Callable, Sequence

import trio

from tailrace.runtime.backoff import doubled_pause_seconds
from tailrace.runtime.chance import Chance
from tailrace.runtime.logs import FilteringBoundLogger
from tailrace.server.server_metrics import AuditCounts

from .audit_lines import AuditLines

PAUSE_SECONDS_MIN = 0.5
PAUSE_SECONDS_MAX = 15.0
"""The longest pause before the next attempt while the topic is unavailable."""

Append = Callable[[str, bytes, Sequence[bytes]], Awaitable[None]]
"""Appends values with one key to partition 0 of a topic, and returns when they are committed. Raises OSError."""


class AuditTopic:
    """Sends lines, from those that the topic does not have yet."""

    def __init__(
        self,
        topic: str,
        server: str,
        public_key: str,
        lines: AuditLines,
        chance: Chance,
        counts: AuditCounts,
        logger: FilteringBoundLogger,
    ) -> None:
        """`server` names this server, for example `spu-1`."""
        self.topic = topic
        self._key = f"{server}-{lines.chain}:{public_key}".encode()
        self._lines = lines
        self._chance = chance
        self._counts = counts
        self._logger = logger
        self._written = trio.Event()
        self._failures = 0

    def on_written(self) -> None:
        """Notes that the log has more lines."""
        self._written.set()

    async def run(self, append: Append) -> None:
        """Copies lines until it is cancelled."""
        while True:
            self._written = trio.Event()
            try:
                while await self._copy_next(append):
                    pass
            except OSError as error:
                await self._on_failed(str(error))
            else:
                await self._written.wait()

    async def _copy_next(self, append: Append) -> bool:
        chunk = self._lines.next()
        if chunk is None:
            return False
        await append(self.topic, self._key, chunk.lines)
        await self._lines.advance(chunk)
        self._counts.audit_topic_lines += len(chunk.lines)
        if chunk.missed:
            self._counts.missed_audit_topic_lines += chunk.missed
            self._logger.error("audit_topic_missed", topic=self.topic, lines=chunk.missed)
        if self._failures:
            self._failures = 0
            self._logger.info("audit_topic_available", topic=self.topic)
        return True

    async def _on_failed(self, reason: str) -> None:
        self._failures += 1
        if self._failures == 1:
            self._logger.warning("audit_topic_unavailable", topic=self.topic, reason=reason)
        fraction = self._chance.fraction()
        await trio.sleep(doubled_pause_seconds(self._failures, fraction, PAUSE_SECONDS_MIN, PAUSE_SECONDS_MAX))

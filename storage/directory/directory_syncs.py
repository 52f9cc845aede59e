"""Syncs the directories above replicas once for thousands of replicas that share them.

A log needs to know one thing: whether a sync of the directory began after the log's entry was made. So every log draws
a number when its directories exist, and a sync records the last number that was drawn when it began.
"""

from tailrace.runtime.files import Files

DIRECTORIES_MAX = 1000
"""The number of directories that are remembered. A forgotten directory is synced once more."""


class DirectorySyncs:
    """Remembers for each directory up to which number its entries are on the disk."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._drawn = 0
        self._synced: dict[str, int] = {}
        """The number up to which entries are on the disk, by directory."""

    def next_number(self) -> int:
        """Returns a number for a caller that has just made its directories, or found them."""
        self._drawn += 1
        return self._drawn

    async def sync(self, directory: str, number: int) -> None:
        """Syncs the directory unless a sync began after `number` was drawn. Raises OSError.

        When this returns, everything that was in the directory when the number was drawn is on the disk.
        """
        if self._synced.get(directory, 0) >= number:
            return
        covered = self._drawn
        await self._files.sync_directory(directory)
        if len(self._synced) >= DIRECTORIES_MAX:
            self._synced.clear()
        self._synced[directory] = max(covered, self._synced.get(directory, 0))

"""Syncs the directories above those of replicas: thousands of replicas have the same ones, and need not sync them each.

What is asked is always the same: whether a sync of the directory began after the entry was made. So every log that
opens draws a number when its directories are there, and a sync notes the last number that was drawn when it began.
"""

from tailrace.runtime.files import Files

DIRECTORIES_MAX = 1000
"""Are remembered. One that is forgotten is synced once more."""


class DirectorySyncs:
    def __init__(self, files: Files) -> None:
        self._files = files
        self._drawn = 0
        self._synced: dict[str, int] = {}
        """By directory: whoever drew this number or a smaller one finds its entries on the disk."""

    def draw(self) -> int:
        """For who has just made its directories, or found them."""
        self._drawn += 1
        return self._drawn

    async def sync(self, directory: str, number: int) -> None:
        """What was in the directory when the number was drawn is on the disk when this returns. Raises OSError."""
        if self._synced.get(directory, 0) >= number:
            return
        covered = self._drawn
        await self._files.sync_directory(directory)
        if len(self._synced) >= DIRECTORIES_MAX:
            self._synced.clear()
        self._synced[directory] = max(covered, self._synced.get(directory, 0))

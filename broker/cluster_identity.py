"""Which cluster a data directory belongs to, in one file that is written when the SPU first joins one.

A Streaming Controller of another cluster knows none of the topics here, and all of them would be put away as deleted.
So who mixes up addresses or directories, or gives the controller an empty store, is told so, and nothing is touched.
"""

from tailrace.runtime.files import Files
from tailrace.storage import layout

_PREFIX = "tailrace cluster "


class ClusterIdentity:
    def __init__(self, files: Files, data_directory: str) -> None:
        self._files = files
        self._path = layout.cluster_path(data_directory)
        self._cluster_id = self._read()
        """None while it belongs to none."""

    def _read(self) -> str | None:
        if not self._files.exists(self._path):
            return None
        text = self._files.read(self._path).decode(errors="replace")
        # What is not ours fits no cluster, and is shown as it is.
        return text.removeprefix(_PREFIX).rstrip("\n")

    def refusal(self, cluster_id: str) -> str | None:
        """Why this is not the cluster to join."""
        if self._cluster_id in (None, cluster_id):
            return None
        return (
            f"the Streaming Controller is of the cluster {cluster_id}, and {self._path} says that the data here belong "
            f"to {self._cluster_id[:100]!r}"
        )

    async def remember(self, cluster_id: str) -> None:
        """From now on the directory belongs to the cluster. Raises OSError."""
        if self._cluster_id is None:
            await self._files.replace(self._path, f"{_PREFIX}{cluster_id}\n".encode())
            self._cluster_id = cluster_id

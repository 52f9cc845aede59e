"""Which cluster a data directory belongs to, and which SPU of it, in two files that are written when that first joins.

A Streaming Controller of another cluster knows none of the topics here, and all of them would be put away as deleted.
So who mixes up addresses or directories, or gives the controller an empty store, is told so, and nothing is touched.
Another SPU would lead what it alone has with nothing.
"""

from tailrace.protocol.ids import SpuId
from tailrace.runtime.files import Files
from tailrace.storage.directory import layout

_PREFIX = "tailrace cluster "
_SPU_PREFIX = "tailrace spu "


class ClusterIdentity:
    def __init__(self, files: Files, data_directory: str, spu: SpuId) -> None:
        self._files = files
        self._path = layout.cluster_path(data_directory)
        self._spu_path = layout.spu_path(data_directory)
        self._spu = str(spu)
        self._cluster_id = self._read(self._path, _PREFIX)
        """None while it belongs to none."""
        self._owner = self._read(self._spu_path, _SPU_PREFIX)
        """None while it belongs to no SPU, or only to a version that did not write it down."""

    def _read(self, path: str, prefix: str) -> str | None:
        if not self._files.exists(path):
            return None
        text = self._files.read(path).decode(errors="replace")
        # What is not ours fits nobody, and is shown as it is.
        return text.removeprefix(prefix).rstrip("\n")

    @property
    def other_owner(self) -> str | None:
        """The SPU to which the directory belongs, if it is not this one."""
        owner = self._owner
        if owner is None or owner == self._spu:
            return None
        return owner if owner.isdecimal() else repr(owner[:100])

    def refusal(self, cluster_id: str) -> str | None:
        """Why this is not the cluster to join."""
        if self._cluster_id in (None, cluster_id):
            return None
        return (
            f"the Streaming Controller is of the cluster {cluster_id}, and {self._path} says that the data here belong "
            f"to {self._cluster_id[:100]!r}"
        )

    async def remember(self, cluster_id: str) -> None:
        """From now on the directory belongs to the cluster, and to this SPU of it. Raises OSError."""
        if self._cluster_id is None:
            await self._files.replace(self._path, f"{_PREFIX}{cluster_id}\n".encode())
            self._cluster_id = cluster_id
        if self._owner is None:
            await self._files.replace(self._spu_path, f"{_SPU_PREFIX}{self._spu}\n".encode())
            self._owner = self._spu

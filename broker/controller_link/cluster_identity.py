"""Records in two files to which cluster and to which SPU of it a data directory belongs.

The files are written when the SPU first joins. They protect against mixed-up addresses or directories, and against a
Streaming Controller with an empty store. A controller of another cluster knows none of the local topics, so the SPU
would park all of them as deleted. An SPU with the directory of another SPU would lead empty partitions.
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
        """The cluster id; None before the SPU has joined a cluster."""
        self._owner = self._read(self._spu_path, _SPU_PREFIX)
        """The SPU id as text; None if it was never written, as in earlier versions."""

    def _read(self, path: str, prefix: str) -> str | None:
        if not self._files.exists(path):
            return None
        text = self._files.read(path).decode(errors="replace")
        # A file that we did not write matches no id. The error message shows its text.
        return text.removeprefix(prefix).rstrip("\n")

    @property
    def other_owner(self) -> str | None:
        """The SPU to which the directory belongs, or None if it may belong to this one."""
        owner = self._owner
        if owner is None or owner == self._spu:
            return None
        return owner if owner.isdecimal() else repr(owner[:100])

    def refusal(self, cluster_id: str) -> str | None:
        """Returns why this SPU must not join the cluster, or None if it may."""
        if self._cluster_id in (None, cluster_id):
            return None
        return (
            f"the Streaming Controller has the cluster id {cluster_id}, but {self._path} says that the data "
            f"directory belongs to {self._cluster_id[:100]!r}"
        )

    async def remember(self, cluster_id: str) -> None:
        """Writes that the directory belongs to the cluster and to this SPU. Raises OSError."""
        if self._cluster_id is None:
            await self._files.replace(self._path, f"{_PREFIX}{cluster_id}\n".encode())
            self._cluster_id = cluster_id
        if self._owner is None:
            await self._files.replace(self._spu_path, f"{_SPU_PREFIX}{self._spu}\n".encode())
            self._owner = self._spu

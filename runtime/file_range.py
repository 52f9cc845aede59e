"""A range of a log file, which can be sent from the page cache to a socket without a copy."""

from msgspec import Struct

from .files import File


class FileRange(Struct, frozen=True):
    """A range of a file."""

    file: File
    position: int
    count: int

    def __len__(self) -> int:
        return self.count

    def read(self) -> bytes:
        """Returns the bytes of the range. Raises OSError if the file is shorter."""
        data = self.file.read_at(self.position, self.count)
        if len(data) != self.count:
            raise OSError(f"{self.file.path} ended before position {self.position + self.count}")
        return data

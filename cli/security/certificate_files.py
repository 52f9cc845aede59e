"""The files of `tailrace certificate`: an authority, and PEM files with a key and its certificates.

Private keys are readable by their owner alone.
"""

from tailrace.runtime.files import Files
from tailrace.security.certificates.certificate_making import Authority

AUTHORITY = "ca.pem"
AUTHORITY_KEY = "ca-key.pem"


class CertificateFiles:
    """The directory with an authority and the certificates that it has signed."""

    def __init__(self, directory: str, files: Files) -> None:
        self.directory = directory.rstrip("/") or "/"
        self._files = files

    @property
    def has_authority(self) -> bool:
        """Whether there is an authority."""
        return self._files.exists(self.path(AUTHORITY))

    def path(self, name: str) -> str:
        """Returns the path of a file of the directory."""
        return f"{self.directory}/{name}"

    def authority(self) -> Authority:
        """Reads the authority. Raises OSError."""
        return Authority(self._files.read(self.path(AUTHORITY)), self._files.read(self.path(AUTHORITY_KEY)))

    def save_authority(self, authority: Authority) -> None:
        """Writes a new authority; its certificate comes last, because it says that there is one. Raises OSError."""
        self._files.make_directories(self.directory)
        self.save(self.path(AUTHORITY_KEY), authority.key)
        self.save(self.path(AUTHORITY), authority.certificate)

    def save(self, path: str, content: bytes) -> None:
        """Writes or replaces a file in one step, so that a server never reads half of it. Raises OSError."""
        new = f"{path}.new"
        if self._files.exists(new):
            self._files.remove(new)
        self._files.write_private(new, content)
        self._files.rename(new, path)

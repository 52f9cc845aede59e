"""The keys that sign bearer tokens, read from the one URL that the settings name, and read again when they get old.

A token cannot name another source (CVE-2025-27817). A token with an unknown key makes the server look at the source
again, but not more often than every ten seconds.
"""

import math
from collections.abc import Awaitable, Callable
from urllib.parse import unquote, urlsplit

import trio

from tailrace.runtime.files import Files
from tailrace.security.sasl.bearer_keys import KeySetError, SigningKeys, parse_key_set

from .login_log import LoginLog

RETRY_SECONDS = 10.0
KEY_SET_BYTES_MAX = 1024 * 1024
Download = Callable[[str], Awaitable[bytes]]
"""Returns what an https:// URL has. Raises OSError."""


class BearerKeySource:
    """The key set of one listener."""

    def __init__(self, url: str, max_age_seconds: float, files: Files, download: Download, log: LoginLog) -> None:
        """Prepares the source; nothing is read before the first client needs a key."""
        self._url = url
        self._max_age_seconds = max_age_seconds
        self._files = files
        self._download = download
        self._log = log
        self._read_at = -math.inf
        self._reading = trio.Lock()
        self.current = SigningKeys()
        """The keys that were read last."""

    async def refresh(self, *, is_missing_a_key: bool = False) -> None:
        """Reads the keys if they are old, or if `is_missing_a_key` and they were not read just now."""
        async with self._reading:
            age = trio.current_time() - self._read_at
            limit = RETRY_SECONDS if is_missing_a_key or not len(self.current) else self._max_age_seconds
            if age < limit:
                return
            self._read_at = trio.current_time()
            try:
                self.current = parse_key_set(await self._read())
            except (OSError, KeySetError) as error:
                self._log.on_key_set_failed(self._url, str(error))  # the keys that were read before stay in use

    async def _read(self) -> bytes:
        parts = urlsplit(self._url)
        if parts.scheme != "file":
            return await self._download(self._url)
        path = unquote(parts.path)
        if self._files.size(path) > KEY_SET_BYTES_MAX:
            raise KeySetError(f"the key set is larger than {KEY_SET_BYTES_MAX} bytes")
        return self._files.read(path)

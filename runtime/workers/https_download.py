"""Downloads a small document from an encrypted server, without following it elsewhere."""

import ssl
import urllib.error
import urllib.request
from typing import Any, NoReturn

from .hard_work import HardWorker

SECONDS_MAX = 10.0


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Refuses redirects: the document must come from the server that the settings name."""

    def redirect_request(self, request: Any, response: Any, *_: Any) -> NoReturn:
        response.close()
        raise OSError("the server redirects to another address, which is not followed")


async def download(url: str, bytes_max: int, worker: HardWorker, context: ssl.SSLContext | None = None) -> bytes:
    """Returns the document at an https:// URL. Raises OSError."""
    if not url.startswith("https://"):
        raise OSError(f"{url[:100]} is not an https:// URL")

    def read() -> bytes:
        opener = urllib.request.build_opener(
            urllib.request.HTTPSHandler(context=context or ssl.create_default_context()), _NoRedirects()
        )
        try:
            with opener.open(url, timeout=SECONDS_MAX) as response:
                data: bytes = response.read(bytes_max + 1)
        except urllib.error.HTTPError as error:
            error.close()
            raise OSError(f"the server answers with status {error.code}") from None
        if len(data) > bytes_max:
            raise OSError(f"the document is larger than {bytes_max} bytes")
        return data

    return await worker.run(read)

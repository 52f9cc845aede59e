"""Reads URLs of streams: Nuclio's `http://v3io-webapi:8081/CONTAINER/STREAM@GROUP`, and `kafka://HOST:PORT/TOPIC@GROUP`.

A v3io stream is a path in a container; its topic here is that path with dots for slashes. The host of such a URL is
Iguazio's web API, which has no counterpart here: the topic is that of the cluster to which the trigger belongs.
"""

import re

from msgspec import Struct

from .setting_values import ValueRefusedError, addresses, group_name, topic_name

_V3IO = re.compile(r"https?://[^/\s]+/(?P<container>[^/@\s]+)/(?P<stream>[^@\s]+?)/?(?:@(?P<group>[^@\s]+))?")
_KAFKA = re.compile(r"kafka://(?P<brokers>[^/@\s]+)/(?P<topic>[^@/\s]+)(?:@(?P<group>[^@\s]+))?")
_BROKERS = re.compile(r"[^/@\s]+:[0-9]+")
EXAMPLES = "http://v3io-webapi:8081/CONTAINER/STREAM@GROUP or kafka://HOST:PORT/TOPIC@GROUP"


class StreamUrl(Struct, frozen=True):
    """What the URL of a stream says."""

    topic: str | None
    group: str | None
    brokers: tuple[str, ...] = ()
    """Bootstrap addresses; empty for those of the cluster."""


def read_stream_url(text: object) -> StreamUrl:
    """Reads the URL. Raises ValueRefusedError."""
    if not isinstance(text, str):
        raise ValueRefusedError(f"is not the URL of a stream: expected {EXAMPLES}")
    text = text.strip()
    if (found := _V3IO.fullmatch(text)) is not None:
        return StreamUrl(topic_of_path(found["stream"]), _group(found["group"]))
    if (found := _KAFKA.fullmatch(text)) is not None:
        return StreamUrl(topic_name(found["topic"]), _group(found["group"]), addresses(found["brokers"]))
    if _BROKERS.fullmatch(text) is not None:
        # Nuclio's Kafka trigger has the address of a broker here, and the topic among its attributes.
        return StreamUrl(None, None, addresses(text))
    raise ValueRefusedError(f"is not the URL of a stream: expected {EXAMPLES}")


def topic_of_path(path: object) -> str:
    """Returns the name of the topic that stands for the path of a v3io stream."""
    if not isinstance(path, str):
        raise ValueRefusedError("is not the path of a stream")
    return topic_name(path.strip("/").replace("/", "."))


def _group(text: str | None) -> str | None:
    return None if text is None else group_name(text)

"""The names of settings for single listeners, such as `listener.name.public.ssl.client.auth`.

The name of the listener is in small letters there.
"""

import re

OVERRIDE_PREFIX = "listener.name."
_OVERRIDE = re.compile(r"listener\.name\.([a-z0-9_]+)\.(.+)", re.DOTALL)


def override_of(name: str, listener: str) -> str:
    """Returns the name of a setting for one listener."""
    return f"{OVERRIDE_PREFIX}{listener.lower()}.{name}"


def split_override(name: str) -> tuple[str, str] | None:
    """Returns the listener, in small letters, and the setting of an override; None if the name is no override."""
    match = _OVERRIDE.fullmatch(name)
    return None if match is None else (match[1], match[2])

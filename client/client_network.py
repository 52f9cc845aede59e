"""The network of a client process, secured as a file of settings says: `--client-config` or TAILRACE_CLIENT_CONFIG.

Jobs and triggers have no such option for each of their processes. These inherit the variable.
"""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec.structs import replace

from tailrace.runtime.network import Network, TcpNetwork
from tailrace.runtime.seams import Seams, real_seams
from tailrace.runtime.settings import SettingsError
from tailrace.runtime.settings_sources import CLIENT_CONFIG_VARIABLE

if TYPE_CHECKING:
    from .client_security import ClientSecurity


def client_security() -> "ClientSecurity | None":
    """Returns what the file of settings in the environment says; None without a file. Raises SettingsError."""
    path = os.environ.get(CLIENT_CONFIG_VARIABLE)
    if not path:
        return None
    from tailrace.runtime.files import RealFiles

    from .client_security import load_client_security

    return load_client_security(path, RealFiles())


def secured(network: Network, path: str | None, environment: Mapping[str, str]) -> Network:
    """Returns a network that connects as the file says; without a file, the network itself. Raises SettingsError."""
    path = path or environment.get(CLIENT_CONFIG_VARIABLE)
    if not path:
        return network
    # Most clients run without a file, and must not wait for these imports.
    from tailrace.runtime.chance import RandomChance
    from tailrace.runtime.files import RealFiles

    from .client_security import load_client_security
    from .secure_network import SecureNetwork

    files = RealFiles()
    security = load_client_security(path, files)
    if security.is_plain:
        return network
    try:
        return SecureNetwork(network, security, files, RandomChance())
    except OSError as error:
        raise SettingsError(f"{path}: a certificate cannot be used: {error}") from None


def client_network(*, waits_awake: bool = False) -> Network:
    """Returns the TCP network of this process. Raises SettingsError if the file of settings is wrong."""
    return secured(TcpNetwork(send_buffer_bytes=0, waits_awake=waits_awake), None, os.environ)


def client_seams(path: str | None = None) -> Seams:
    """Returns the seams of this process, with its network secured. Raises SettingsError.

    `path` names the file of settings. Without it, the environment does.
    """
    seams = real_seams(send_buffer_bytes=0, waits_awake=False)
    return replace(seams, network=secured(seams.network, path, os.environ))

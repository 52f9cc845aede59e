"""The security of the connections that client commands make: `--client-config` and TAILRACE_CLIENT_CONFIG."""

import argparse
from collections.abc import Mapping

from tailrace.runtime.network import Network
from tailrace.runtime.settings import SettingsError
from tailrace.runtime.settings_sources import CLIENT_CONFIG_VARIABLE

FLAG = "--client-config"


def client_config_option(parser: argparse.ArgumentParser) -> None:
    """Adds `--client-config`."""
    parser.add_argument(
        FLAG,
        metavar="FILE",
        help="File with Kafka's client settings for TLS and SASL, such as security.protocol "
        f"(default: ${CLIENT_CONFIG_VARIABLE}).",
    )


def secured(network: Network, path: str | None, environment: Mapping[str, str]) -> Network:
    """Returns a network that connects as the file says; without a file, the network itself. Raises SettingsError."""
    path = path or environment.get(CLIENT_CONFIG_VARIABLE)
    if not path:
        return network
    # Most commands run without a file, and must not wait for these imports.
    from tailrace.client.client_security import load_client_security
    from tailrace.client.secure_network import SecureNetwork
    from tailrace.runtime.chance import RandomChance
    from tailrace.runtime.files import RealFiles

    files = RealFiles()
    security = load_client_security(path, files)
    if security.is_plain:
        return network
    try:
        return SecureNetwork(network, security, files, RandomChance())
    except OSError as error:
        raise SettingsError(f"{path}: a certificate cannot be used: {error}") from None

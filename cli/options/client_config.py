"""The option `--client-config` of client commands, which names a file with the security of their connections."""

import argparse

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

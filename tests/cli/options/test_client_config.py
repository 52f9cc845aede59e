import argparse

from tailrace.cli.options.client_config import client_config_option


def test_the_option_names_a_file() -> None:
    parser = argparse.ArgumentParser()
    client_config_option(parser)
    assert parser.parse_args([]).client_config is None
    assert parser.parse_args(["--client-config", "x"]).client_config == "x"

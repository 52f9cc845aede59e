import argparse
from pathlib import Path

import pytest

from tailrace.cli.main import main
from tailrace.cli.options.client_config import client_config_option


def test_the_option_names_a_file() -> None:
    parser = argparse.ArgumentParser()
    client_config_option(parser)
    assert parser.parse_args([]).client_config is None
    assert parser.parse_args(["--client-config", "x"]).client_config == "x"


def test_a_wrong_line_of_the_file_is_not_shown_because_it_may_have_a_password(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "client.properties"
    path.write_text("security.protocol=SASL_PLAINTEXT\npassword:opensesame\n")
    assert main(["topic", "list", "--sc", "127.0.0.1:1", "--client-config", str(path)]) == 2
    shown = capsys.readouterr()
    assert "client.properties: line 2 is not NAME=VALUE" in shown.err
    assert "opensesame" not in shown.out + shown.err

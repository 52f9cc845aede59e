from pathlib import Path

import pytest

from tailrace.runtime.files import RealFiles
from tailrace.runtime.settings import SettingsError
from tailrace.security.settings.property_files import parse_properties, read_pem, read_text


def test_properties_have_comments_and_lines_that_go_on() -> None:
    text = "# comment\n! comment\n\n a = 1 \nb=x \\\n   y=z\nc=\n"
    assert parse_properties(text) == {"a": "1", "b": "x y=z", "c": ""}
    assert parse_properties("a=1\r\nb=x \\\r\n  y\r\rc=y\x85z") == {"a": "1", "b": "x y", "c": "y\x85z"}


@pytest.mark.parametrize("line", ["password:opensesame", "opensesame", "password opensesame\\\n opensesame"])
def test_a_line_that_is_none_is_named_by_its_number_because_it_may_have_a_password(line: str) -> None:
    for end in ("\n", "\r\n"):
        text = f"# comment{end}a=1 \\{end}  2{end}{end}" + line.replace("\n", end) + f"{end}b=2{end}"
        with pytest.raises(SettingsError, match=r"^line 5 is not NAME=VALUE$"):
            parse_properties(text)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("näher")
    assert read_text(str(tmp_path / "text"), RealFiles()) == "näher"
    with pytest.raises(SettingsError, match="/none cannot be read: No such file"):
        read_text(str(tmp_path / "none"), RealFiles())
    (tmp_path / "binary").write_bytes(b"\xff")
    with pytest.raises(SettingsError, match="/binary cannot be read: it is not text"):
        read_text(str(tmp_path / "binary"), RealFiles())


def test_comments_of_a_pem_file_may_have_any_bytes(tmp_path: Path) -> None:
    (tmp_path / "pem").write_bytes(b"# \xf6\nrest")
    assert read_pem(str(tmp_path / "pem"), RealFiles()).endswith("\nrest")
    with pytest.raises(SettingsError, match="/none cannot be read: No such file"):
        read_pem(str(tmp_path / "none"), RealFiles())

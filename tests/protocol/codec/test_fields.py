import pytest

from tailrace.protocol.codec.fields import Versions


@pytest.mark.parametrize(
    ("text", "held"),
    [("3", [3]), ("1-3", [1, 2, 3]), ("3+", [3, 4, 5]), ("none", []), ("", []), ("0", [0])],
)
def test_kafkas_notation(text: str, held: list[int]) -> None:
    assert [version for version in range(6) if Versions.parse(text).holds(version)] == held

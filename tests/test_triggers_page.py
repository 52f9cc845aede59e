"""The page about triggers names a proof for each requirement, and the proofs exist."""

import re
from pathlib import Path

import pytest

from tailrace.cli.triggers.letter_replay import PORTION_LETTERS, replay_group
from tailrace.trigger.config.trigger_config import TriggerConfig
from tailrace.trigger.dead_letters import dead_letter
from tailrace.trigger.membership.member_lease import HAND_OUT_FRACTION, HANDLE_FRACTION

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "triggers.md").read_text()
REQUIREMENTS = 52

_ROWS = re.findall(r"^\| S1\.(\d+) \| [^|]+ \| ([^|]+) \|$", PAGE, re.MULTILINE)


def test_every_requirement_has_a_row() -> None:
    assert [int(number) for number, _ in _ROWS] == list(range(1, REQUIREMENTS + 1))


@pytest.mark.parametrize(("number", "proofs"), _ROWS)
def test_the_proofs_of_a_requirement_exist(number: str, proofs: str) -> None:
    named = re.findall(r"`([^`]+)`", proofs)
    assert named
    for each in named:
        path, _, name = each.partition("::")
        assert (ROOT / path).is_file(), path
        assert not name or re.search(rf"def {name}\(", (ROOT / path).read_text()), each


def test_the_numbers_and_names_of_the_page_are_those_of_the_code() -> None:
    prose = " ".join(PAGE.split())
    assert f"no event after {HAND_OUT_FRACTION * 100:.0f} %" in prose
    assert f"run after {HANDLE_FRACTION * 100:.0f} %" in prose
    assert f"up to {PORTION_LETTERS} letters are sent again" in prose
    config = TriggerConfig(name="bill", topic="orders", group="billing")
    assert config.dead_letter_topic in PAGE
    assert replay_group(config.dead_letter_topic) in PAGE
    headers = set(re.findall(r"`(?:__dlq\.errors)?\.([a-z.]+)`", PAGE.partition("| Header |")[2].partition("## ")[0]))
    assert headers == dead_letter.NAMES

"""Runs the consumers of docs/first-day.md as a newcomer does: in two terminals, and then in one."""

import re
import subprocess
import sys
from pathlib import Path

from waiting import wait_until

PAGE = Path(__file__).parents[2] / "docs" / "first-day.md"
PARTITIONS = 4
SECONDS_MAX = 40


class Terminal:
    """Runs a program, and records what it prints."""

    def __init__(self, program: Path) -> None:
        self._printed = program.with_name(f"{id(self)}.printed")
        with self._printed.open("wb") as printed:
            command = [sys.executable, "-W", "ignore", str(program)]
            self._process = subprocess.Popen(command, stdout=printed, stderr=subprocess.DEVNULL)

    def values(self) -> set[str]:
        return set(re.findall(r"b'(.*)'", self._printed.read_text()))

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


def test_two_readers_share_the_parcels_and_one_takes_over(bootstrap, create_topic, group, fill, tmp_path, admin):
    parcels = create_topic(PARTITIONS)
    (example,) = re.findall(r"^```python\n([^`]*group_id=[^`]*)^```$", PAGE.read_text(), re.MULTILINE)
    for mine, of_the_page in ((bootstrap, "127.0.0.1:9092"), (parcels, "parcels"), (group, "delivery")):
        assert of_the_page in example
        example = example.replace(of_the_page, mine)
    reader = tmp_path / "reader.py"
    # The shorter session lets the broker notice the killed reader sooner.
    reader.write_text(example.replace("group_id=", "session_timeout_ms=10000, heartbeat_interval_ms=300, group_id="))
    one, two = terminals = [Terminal(reader), Terminal(reader)]
    try:
        wait_until(lambda: len(owners(admin, group)) == 2 and all(owners(admin, group)), SECONDS_MAX, "they share")
        values = fill(parcels, 3, PARTITIONS)
        wait_until(lambda: one.values() | two.values() == values, SECONDS_MAX, "everything is read")
        assert one.values() and two.values() and not one.values() & two.values()
        one.close()
        values = fill(parcels, 3, PARTITIONS)
        wait_until(lambda: values <= two.values(), SECONDS_MAX, "the other one takes over")
    finally:
        for terminal in terminals:
            terminal.close()


def owners(admin, group):
    """Returns how many partitions each member owns."""
    members = admin.describe_groups([group])[group]["members"]
    return [
        sum(len(each["partitions"]) for each in (member["member_assignment"] or {}).get("assigned_partitions", ()))
        for member in members
    ]

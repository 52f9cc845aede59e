"""Runs the programs of docs/transactions.md, on topics of the test's own."""

import re
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from brokers import is_apache_kafka
from cluster import run_to_end, tailrace
from confluent_kafka import Producer
from waiting import wait_until

from .transaction_readers import values

PAGE = (Path(__file__).parents[2] / "docs" / "transactions.md").read_text()
TRANSFER, KAFKA_PYTHON, BILLING = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
SECONDS_MAX = 40


@pytest.fixture
def make_program(bootstrap, tmp_path):
    """Returns a function that saves a program of the page, with other names, and returns the command that runs it."""

    def make(text, **names):
        for of_the_page, mine in {"127.0.0.1:9092": bootstrap, **names}.items():
            assert of_the_page in text
            text = text.replace(of_the_page, mine)
        program = tmp_path / f"{uuid.uuid4().hex}.py"
        program.write_text(text)
        return [sys.executable, "-W", "ignore", str(program)]

    return make


def test_a_transfer_arrives_as_a_whole_and_an_aborted_one_not_at_all(request, bootstrap, create_topic, make_program):
    withdrawals, deposits = create_topic(), create_topic()
    for text in (TRANSFER, KAFKA_PYTHON):
        status, said = run_to_end(make_program(text, withdrawals=withdrawals, deposits=deposits))
        assert status == 0, said
    assert values(bootstrap, withdrawals, [0]) == values(bootstrap, deposits, [0]) == ["30", "7"]
    assert values(bootstrap, withdrawals, [0], "read_uncommitted") == ["30", "1000000", "7"]
    if not is_apache_kafka(request):
        where = ("--bootstrap", bootstrap, "--values")
        command = tailrace("consume", withdrawals, deposits, "--isolation", "read_committed", *where)
        status, said = run_to_end(command)
        assert (status, sorted(said.split())) == (0, ["30", "30", "7", "7"])


def test_each_order_gets_one_invoice_although_the_program_is_killed(bootstrap, create_topic, make_program):
    orders, invoices = create_topic(), create_topic()
    names = {"orders": orders, "invoices": invoices, "billing": f"billing-{uuid.uuid4().hex}"}
    # The variable of the program has the name of the topic.
    text = (
        BILLING.replace("orders = [", "found = [").replace("not orders", "not found").replace("in orders", "in found")
    )
    # The shorter session lets the broker notice the killed program sooner.
    short = '"session.timeout.ms": 6000, "heartbeat.interval.ms": 500, "enable.auto.commit"'
    text = text.replace('"enable.auto.commit"', short)
    command = [*make_program(text, **names), f"id-{uuid.uuid4().hex}"]
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    expected = []
    for turn in range(2):
        for number in range(10):
            producer.produce(orders, value=f"{turn}-{number}")
            expected.append(f"invoice for {turn}-{number}")
        assert producer.flush(SECONDS_MAX) == 0
        with subprocess.Popen(command) as billing:
            try:
                wait_until(lambda: values(bootstrap, invoices, [0]) == expected, SECONDS_MAX, "every order is billed")
            finally:
                billing.kill()

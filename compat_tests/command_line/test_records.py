"""`tailrace produce` and `tailrace consume` as processes, next to a stock client; also on Apache Kafka."""

import json
import os
import signal
import subprocess

import pytest
from cluster import run_to_end, tailrace, tailrace_output
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from waiting import wait_until

CODECS = [None, "gzip", "snappy", "lz4", "zstd"]
KEYS = [b"key-%d" % number for number in range(30)]


@pytest.fixture
def produce(bootstrap):
    """Returns `produce(b"lines", topic, …)`, which runs `tailrace produce` and returns its JSON output."""
    return lambda text, *words: json.loads(
        tailrace_output("produce", *words, "--bootstrap", bootstrap, standard_input=text)
    )


@pytest.fixture
def consume(bootstrap):
    """Returns `consume(topic, …)`, which runs `tailrace consume` and returns the records of its JSON output."""
    return lambda *words: [
        json.loads(line) for line in tailrace_output("consume", *words, "--bootstrap", bootstrap).splitlines()
    ]


@pytest.fixture
def read_all(bootstrap):
    """Yields a function that reads the records of a topic's partitions with a stock client."""
    consumers = []

    def read(topic, partitions, count):
        consumer = KafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", consumer_timeout_ms=20_000)
        consumers.append(consumer)
        consumer.assign([TopicPartition(topic, number) for number in range(partitions)])
        return [next(consumer) for _ in range(count)]

    yield read
    for consumer in consumers:
        consumer.close()


@pytest.fixture
def make_producer(bootstrap):
    producers = []

    def make(**settings):
        producers.append(KafkaProducer(bootstrap_servers=bootstrap, **settings))
        return producers[-1]

    yield make
    for producer in producers:
        producer.close()


@pytest.mark.parametrize("codec", CODECS, ids=str)
def test_a_stock_client_reads_what_was_produced(codec, topic, produce, read_all):
    lines = [b"%d:value %d " % (number % 3, number) + b"x" * 200 for number in range(500)]
    words = ("--key-separator", ":", "--header", "a=1", "--compression", codec or "none")
    (written,) = produce(b"\n".join(lines), topic, *words)
    assert (written["records"], written["firstOffset"], written["lastOffset"]) == (500, 0, 499)
    records = read_all(topic, 1, 500)
    assert [record.key + b":" + record.value for record in records] == lines
    assert [record.headers for record in records[:2]] == [[("a", b"1")]] * 2


@pytest.mark.parametrize("codec", CODECS, ids=str)
def test_records_of_a_stock_client_are_read(codec, topic, make_producer, consume):
    producer = make_producer(compression_type=codec, linger_ms=50)
    for number in range(500):
        value = b"value %d " % number + b"x" * 200
        producer.send(topic, value, KEYS[number % 30], [("h", b"\xff")], timestamp_ms=number)
    producer.flush()
    records = consume(topic)
    assert [each["offset"] for each in records] == [each["timestamp"] for each in records] == list(range(500))
    assert {each["key"] for each in records} == {key.decode() for key in KEYS}
    assert all(each["value"].startswith(f"value {each['offset']} x") and each["committed"] for each in records)
    assert records[0]["headers"] == [{"name": "h", "value": {"base64": "/w=="}}]


def test_a_key_has_the_partition_that_stock_clients_give_it(create_topic, produce, make_producer, read_all):
    topic = create_topic(partitions=7)
    producer = make_producer()
    theirs = {key: producer.send(topic, b"v", key).get(20).partition for key in KEYS}
    produce(b"".join(key + b":v\n" for key in KEYS), topic, "--key-separator", ":")
    records = read_all(topic, 7, 2 * len(KEYS))
    assert {(record.key, record.partition) for record in records} == set(theirs.items())


def test_reading_begins_and_ends_at_the_given_offsets(create_topic, produce, consume):
    topic = create_topic(partitions=2)
    produce(b"a\nb\nc\n", f"{topic}/0")
    produce(b"d\n", f"{topic}/1")
    assert sorted(each["value"] for each in consume(topic)) == ["a", "b", "c", "d"]
    assert [each["value"] for each in consume(f"{topic}:0", "--from", "1", "--count", "1")] == ["b"]
    assert len(consume(topic, "--from", "1h")) == 4
    assert consume(topic, "--from", "2100-01-01") == []


def test_the_last_value_of_a_key_may_be_none(topic, produce, consume):
    produce(b"a:1\na:NULL\n", topic, "--key-separator", ":", "--null", "NULL")
    assert [each["value"] for each in consume(topic)] == ["1", None]


def test_new_records_are_shown_until_the_command_is_stopped(bootstrap, topic, produce):
    command = tailrace("consume", topic, "--values", "--follow", "--bootstrap", bootstrap)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as following:
        for value in (b"one\n", b"two\n"):
            produce(value, topic)
            assert following.stdout.readline() == value
        os.kill(following.pid, signal.SIGINT)
        assert following.communicate(timeout=20) == (b"", b"")
    assert following.returncode == 0


def test_records_come_back_exactly_from_json_lines(create_topic, make_producer, bootstrap, read_all):
    topic, copy = create_topic(partitions=3), create_topic(partitions=3)
    producer = make_producer()
    headers = [("a", b"1"), ("a", b"\xff"), ("b", b"")]
    contents = [
        None,
        b"",
        b"text",
        b"\x00\xff",
        b'{"id": 1}',
        b'["\xc3\xa4", 1.50]',
        b'{"base64": ""}',
        b'{"a":\n1}',
        b"17",
    ]
    for number, value in enumerate(contents):
        for key in contents[number or 1 :]:  # the client refuses a record without key and value
            producer.send(topic, value, key, headers[: number % 4], partition=number % 3, timestamp_ms=1000 + number)
    producer.flush()
    lines = tailrace_output("consume", topic, "--output", "json", "--bootstrap", bootstrap)
    tailrace_output("produce", copy, "--json", "--bootstrap", bootstrap, standard_input=lines.encode())

    def records(name):
        found = read_all(name, 3, 44)
        return sorted((r.partition, r.offset, r.timestamp, repr(r.key), repr(r.value), repr(r.headers)) for r in found)

    assert records(copy) == records(topic)


def test_topics_ranges_filters_and_formats(create_topic, make_producer, bootstrap):
    first, second = create_topic(partitions=2), create_topic()
    producer = make_producer()
    for number in range(20):
        topic, partition = ((first, 0), (first, 1), (second, 0))[number % 3]
        headers = [("n", b"%d" % number)]
        producer.send(topic, b"%d" % number, KEYS[number % 5], headers, partition, timestamp_ms=1000 * number)
    producer.flush()

    def consume(*words):
        where = ("--format", r"%t/%p %s\n", "--bootstrap", bootstrap)
        command = tailrace("consume", first, f"{second[:-1]}?", *words, *where)
        found = subprocess.run(command, capture_output=True, timeout=20, check=True).stdout.decode()
        return sorted(int(line.split()[1]) for line in found.splitlines())

    assert consume() == list(range(20))
    assert consume("--from", "1970-01-01T00:00:05Z", "--to", "1970-01-01T00:00:10Z") == [5, 6, 7, 8, 9]
    assert consume("--tail", "3") == [17, 18, 19]
    assert consume("--key", "key-[12]", "--header", "n=?") == [1, 2, 6, 7]
    status, said = run_to_end(tailrace("consume", first, "--format", "%q", "--bootstrap", bootstrap))
    assert (status, "%q is not known; there are: %t topic, " in said) == (2, True)


def test_a_producer_that_is_stopped_says_what_it_wrote(bootstrap, topic):
    command = tailrace("produce", topic, "--output", "json", "--bootstrap", bootstrap)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as producing:
        producing.stdin.write(b"one\ntwo\nthr")
        producing.stdin.flush()
        reading = tailrace("consume", topic, "--values", "--follow", "--count", "2", "--bootstrap", bootstrap)
        assert subprocess.run(reading, capture_output=True, timeout=20, check=True).stdout == b"one\ntwo\n"
        os.kill(producing.pid, signal.SIGINT)
        producing.wait(timeout=20)  # the input stays open
        written, said = producing.communicate()
    assert (producing.returncode, said) == (130, b"tailrace produce: stopped after 2 records were written\n")
    assert [(each["records"], each["lastOffset"]) for each in json.loads(written)] == [(2, 1)]


def test_errors_are_one_sentence(bootstrap, topic):
    where = ("--bootstrap", bootstrap)
    assert run_to_end(tailrace("consume", f"{topic}-not", *where)) == (
        1,
        f"tailrace consume: there is no topic {topic}-not\n",
    )
    status, said = run_to_end(tailrace("consume", topic, "--bootstrap", "127.0.0.1:1"))
    assert (status, said.count("\n")) == (3, 1)


def test_only_tailrace_shows_uncommitted_records(request, bootstrap, topic, produce):
    produce(b"a\n", topic)
    status, said = run_to_end(tailrace("consume", topic, "--uncommitted", "--bootstrap", bootstrap))
    if request.config.getoption("--broker") == "apache-kafka":
        assert status == 1
        assert said.endswith("closed the connection; only SPUs of Tailrace send uncommitted records\n")
    else:
        assert (status, said.count("may be lost"), said.count('"a"')) == (0, 1, 1)


@pytest.fixture
def start_member(bootstrap):
    """Returns `start_member(topic, …)`, which starts `tailrace consume` as a member of a group."""
    started = []

    def start(name, *words):
        where = ("--group", f"group-of-{name}", "--format", r"%p %s\n", "--bootstrap", bootstrap)
        command = tailrace("consume", name, *where, *words)
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE))
        return started[-1]

    yield start
    for each in started:
        each.kill()
        each.communicate()


def _committed(bootstrap, topic, partitions):
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, group_id=f"group-of-{topic}")
    try:
        return [consumer.committed(TopicPartition(topic, number)) for number in range(partitions)]
    finally:
        consumer.close()


def test_a_group_continues_after_what_was_printed(bootstrap, topic, produce, start_member):
    produce(b"0\n1\n2\n3\n4\n", topic)
    first, said = start_member(topic, "--count", "2").communicate(timeout=40)
    assert (first, said) == (b"0 0\n0 1\n", b"")
    assert _committed(bootstrap, topic, 1) == [2]
    assert start_member(topic).communicate(timeout=40) == (b"0 2\n0 3\n0 4\n", b"")
    following = start_member(topic, "--follow")
    produce(b"5\n", topic)
    assert following.stdout.readline() == b"0 5\n"
    os.kill(following.pid, signal.SIGINT)
    assert following.communicate(timeout=20) == (b"", b"")
    assert (following.returncode, _committed(bootstrap, topic, 1)) == (0, [6])


def test_members_share_the_partitions_with_each_other_and_with_stock_clients(
    bootstrap, create_topic, make_producer, start_member
):
    topic = create_topic(partitions=6)
    producer = make_producer()
    numbers = iter(range(100))

    def send():
        sent = [next(numbers) for _ in range(6)]
        for number in sent:
            producer.send(topic, b"%d" % number, partition=number % 6)
        producer.flush()
        return sent

    def read(member, count):
        return [int(member.stdout.readline().split()[1]) for _ in range(count)]

    def wait_for_members(count):
        def is_stable():
            words = ("group", "describe", f"group-of-{topic}", "--bootstrap", bootstrap)
            (group,) = json.loads(tailrace_output(*words))
            return group["state"] == "Stable" and len(group["members"]) == count

        wait_until(is_stable, 30, f"a stable group of {count}")

    first = start_member(topic, "--follow")
    assert sorted(send()) == sorted(read(first, 6))
    second = start_member(topic, "--follow")
    wait_for_members(2)
    assert sorted(send()) == sorted([*read(first, 3), *read(second, 3)])
    os.kill(first.pid, signal.SIGINT)
    assert first.communicate(timeout=20) == (b"", b"")
    assert sorted(send()) == sorted(read(second, 6))
    stock = KafkaConsumer(
        topic, bootstrap_servers=bootstrap, group_id=f"group-of-{topic}", auto_offset_reset="earliest"
    )
    try:
        wait_until(
            lambda: stock.poll(100) == {} and len(stock.assignment()) == 3, 30, "partitions for the stock client"
        )
        sent = send()
        assert sorted(sent) == sorted([*read(second, 3), *(int(next(stock).value) for _ in range(3))])
    finally:
        stock.close()

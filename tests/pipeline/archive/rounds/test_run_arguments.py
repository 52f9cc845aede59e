import argparse

from tailrace.pipeline.archive.rounds.run_arguments import MIB, configure


def test_defaults_read_whole_topics_in_chunks_of_64_mib() -> None:
    parser = argparse.ArgumentParser()
    configure(parser)
    given = parser.parse_args(["orders", "--to", "archive"])
    assert (given.topics, given.begin, given.until, given.every) == (["orders"], "earliest", None, None)
    assert given.chunk_mib * MIB == 64 * 2**20

"""`make bench-security`: what encryption, logins, access rules and quotas cost, beside Apache Kafka.

Apache Kafka and Tailrace do the same client work in turns: over TLS, over TLS after a login with SCRAM, and short
connections that log in. Then Tailrace does the same work for a client without an authorizer, for a super user, for a
client with access rules, and for a client with a quota. The table shows medians, and asserts nothing.
"""

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from cluster import tailrace
from goals import SECURITY_ROWS
from result_table import OURS, THEIRS, Figures, machine, table
from running_work import Access, run_cases, wait_until_at_rest
from secured_servers import (
    AUTHORIZER,
    OPEN,
    SASL,
    SASL_SSL,
    SSL,
    SUPER_USER,
    SecuredKafka,
    SecuredServer,
    SecuredTailrace,
)

WAYS = {
    "plain": (OPEN,),
    "tls": (SSL,),
    "scram-tls": (SASL_SSL,),
    "scram": (SASL,),
}
"""How clients reach both systems: the arguments of `SecuredServer.access`."""
CHAINS = (
    ("plain", ("produce-big", "consume-1")),
    ("tls", ("produce-big", "consume-1")),
    ("scram-tls", ("produce-big", "consume-1")),
    ("plain", ("produce-small",)),
    ("tls", ("produce-small",)),
    ("scram-tls", ("produce-small",)),
    ("tls", ("latency",)),
    ("plain", ("logins",)),
    ("scram", ("logins",)),
    ("tls", ("logins",)),
    ("scram-tls", ("logins",)),
)
CASES = dict.fromkeys(case for _, chain in CHAINS for case in chain)
RULED_CHAINS = (("pipelined",), ("produce-single",), ("produce-small", "consume-1"))
OPEN_CLIENT, RULED, SUPER, LIMITED = "without", "with-rules", "super-user", "with-quota"


def main() -> None:
    options = parse_options()
    print(f"# {machine()}; medians of {options.rounds} rounds in turns", file=sys.stderr)
    figures: dict[str, Figures] = {THEIRS: defaultdict(list), OURS: defaultdict(list)}
    home = Path(tempfile.mkdtemp(prefix="bench-", dir=options.directory))
    try:
        certificates = home / "certificates"
        subprocess.run(tailrace("certificate", "make", str(certificates)), check=True, capture_output=True)
        chains = [each for each in CHAINS if not options.only or is_chosen(options.only, *each)]
        if chains:
            compare_systems(home, certificates, figures, chains, options.rounds)
        if not options.only or "rules" in options.only:
            compare_rules(home, certificates, figures[OURS], options.rounds)
    finally:
        shutil.rmtree(home)
    print("\n".join(table(figures, options.rounds, SECURITY_ROWS)))


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="how often each broker does each piece of work")
    parser.add_argument("--only", nargs="*", metavar="WORD", help=f"some of: rules {' '.join(WAYS)} {' '.join(CASES)}")
    parser.add_argument("--directory", metavar="DIR", help="where the brokers keep their data (default: temporary)")
    return parser.parse_args()


def is_chosen(words: list[str], way: str, chain: tuple[str, ...]) -> bool:
    return way in words or bool(set(chain) & set(words))


@contextmanager
def running(servers: Mapping[str, SecuredKafka | SecuredTailrace]) -> Iterator[None]:
    with ExitStack() as stack:
        for server in servers.values():
            stack.callback(server.stop)
            server.start()
        yield


def compare_systems(
    home: Path,
    certificates: Path,
    figures: dict[str, Figures],
    chains: list[tuple[str, tuple[str, ...]]],
    rounds: int,
) -> None:
    """Measures Apache Kafka and Tailrace."""
    servers = {
        THEIRS: SecuredKafka(home / "kafka", certificates),
        OURS: SecuredTailrace(home / "tailrace", certificates),
    }
    with running(servers):
        for server in servers.values():
            for way in ("plain", "scram-tls"):  # the JVM compiles what it has seen often
                work(
                    server, server.access(way, *WAYS[way]), ["produce-small", "consume-1", "logins"], defaultdict(list)
                )
        wait_until_at_rest([server.pid for server in servers.values()])
        for way, chain in chains:
            for number in range(rounds):
                for name in list(servers)[:: 1 if number % 2 else -1]:
                    work(servers[name], servers[name].access(way, *WAYS[way]), list(chain), figures[name])
            print(f"# {time.strftime('%H:%M:%S')} {way}: {', '.join(chain)}", file=sys.stderr)


def compare_rules(home: Path, certificates: Path, figures: Figures, rounds: int) -> None:
    """Measures clients that log in alike, on brokers with and without access rules and quotas."""
    plain, ruled, limited = (
        SecuredTailrace(home / name, certificates, settings)
        for name, settings in (("open", {}), ("ruled", AUTHORIZER), ("limited", {}))
    )
    with running({"open": plain, "ruled": ruled, "limited": limited}):
        ruled.create_rules()
        limited.set_quotas()
        clients = (
            (plain, plain.access(OPEN_CLIENT, SASL, "PLAIN")),
            (ruled, ruled.access(SUPER, SASL, "PLAIN", SUPER_USER)),
            (ruled, ruled.access(RULED, SASL, "PLAIN")),
            (limited, limited.access(LIMITED, SASL, "PLAIN")),
        )
        for server, access in clients:
            work(server, access, ["pipelined"], defaultdict(list))
        for chain in RULED_CHAINS:
            for number in range(rounds):
                for server, access in clients[:: 1 if number % 2 else -1]:
                    work(server, access, list(chain), figures)
            print(f"# {time.strftime('%H:%M:%S')} rules: {', '.join(chain)}", file=sys.stderr)
    add_multiples(figures)


def add_multiples(figures: Figures) -> None:
    """Adds how each figure of a client compares with the same of the client without an authorizer."""
    for (case, figure), values in list(figures.items()):
        work, _, client = case.partition(" ")
        base = figures.get((f"{work} {OPEN_CLIENT}", figure))
        if base and client in (SUPER, RULED, LIMITED):
            figures[case, f"{figure} multiple"].append(statistics.median(values) / statistics.median(base))


def work(server: SecuredServer, access: Access, chain: list[str], figures: Figures) -> None:
    run_cases(server.addresses[OPEN], [server.pid], chain, figures, access=access)


if __name__ == "__main__":
    main()

"""The checks of `tailrace doctor`: addresses, clocks, disks, limits and versions, from what servers said about them."""

from collections.abc import Iterator, Sequence

from tailrace.cli.output.printing import counted, size_text
from tailrace.protocol.internal.describe_server import DescribeServerResponse
from tailrace.runtime.network import WILDCARD_HOSTS, Address, is_loopback

from .findings import Finding, Level, capitalized, listed
from .server_visits import SC_ID, Visit, name_of

CLOCK_WARNING_MS = 1000
CLOCK_PROBLEM_MS = 30_000
DISK_WARNING, DISK_PROBLEM = 0.15, 0.05
STORAGE_WARNING = 0.9
USED_WARNING, USED_PROBLEM = 0.8, 0.95
CERTIFICATE_DAYS_MIN, CERTIFICATE_DAYS_PROBLEM = 30, 3
DAY_MS = 86_400_000
DESCRIPTORS_FEW = 4096
"""With a lower limit of open files, some thousand partitions and clients do not fit."""


# addresses


def address_findings(visits: Sequence[Visit], cluster_id: str) -> list[Finding]:
    """Judges whether the addresses that clients are told lead to the right servers from this machine."""
    found = [fault for visit in visits if (fault := _address_fault(visit, cluster_id)) is not None]
    spus = [visit for visit in visits if visit.target.server != SC_ID]
    if not spus:
        found.append(Finding(Level.PROBLEM, "addresses", "Clients are told no address.", "Start an SPU."))
    elif not found:
        listed_addresses = listed([str(visit.target.address) for visit in spus], 6)
        found.append(
            Finding(
                Level.OK,
                "addresses",
                f"From this machine, each address that clients are told leads to its SPU: {listed_addresses}.",
            )
        )
    return found


def _address_fault(visit: Visit, cluster_id: str) -> Finding | None:
    name, address = visit.name, visit.target.address
    if visit.target.server == SC_ID:
        return None  # it was asked there
    if visit.fault:
        return Finding(
            Level.PROBLEM,
            "addresses",
            f"Clients are told {address} for {name}, which does not work from this machine: "
            f"{visit.fault.rstrip('. ')}.",
            "Check firewalls. In a container, name the published port with `--published HOST:PORT`; elsewhere, tell "
            "clients another address with `--public LISTEN=ADVERTISED`.",
        )
    described = visit.description
    if described is None:
        return None
    if described.cluster_id != cluster_id:
        return Finding(
            Level.PROBLEM,
            "addresses",
            f"Clients are told {address} for {name}, and a server of another cluster answers there.",
            "Give each cluster addresses of its own: with --public, or with other published ports.",
        )
    if described.spu_id != visit.target.server:
        return Finding(
            Level.PROBLEM,
            "addresses",
            f"Clients are told {address} for {name}, and {name_of(described.spu_id)} answers there.",
            "Give each SPU an address of its own with `--public LISTEN=ADVERTISED`, or publish a port for each.",
        )
    return None


def outside_findings(visits: Sequence[Visit], outside: Sequence[Visit]) -> Iterator[Finding]:
    """Judges what clients in containers and on other hosts are told.

    `visits` used the addresses that clients on this machine are told. `outside` used the address of this machine by
    which others reach it, for servers that listen on it.
    """
    described = [each for each in visits if each.target.server != SC_ID and each.description is not None]
    local = sorted({each.target.server for each in described if _listens_locally(each.description)})
    if local:
        names = listed([name_of(each) for each in local])
        yield Finding(
            Level.OK,
            "addresses",
            f"Only clients on the machine of {names} can connect, because nothing else reaches 127.0.0.1.",
            "For clients in containers or on other hosts, listen on all addresses: `--public 0.0.0.0:9092`.",
        )
    told_loopback = sorted(
        {str(address) for visit in outside for address in visit.told.values() if is_loopback(address.host)}
    )
    if told_loopback:
        yield Finding(
            Level.PROBLEM,
            "addresses",
            f"A client in a container or on another host is told {listed(told_loopback)}, which leads it to itself.",
            "Leave the advertised address out, so that it follows how the client connected, or give one that works "
            "everywhere: `--public LISTEN=ADVERTISED`.",
        )
    else:
        told = sorted({str(address) for visit in outside for address in visit.told.values()})
        if told:
            yield Finding(
                Level.OK,
                "addresses",
                f"A client that connects from a container or another host is told {listed(told, 6)}.",
            )


def _listens_locally(described: DescribeServerResponse | None) -> bool:
    return described is not None and all(is_loopback(each.host) for each in described.listeners)


def outside_addresses(visits: Sequence[Visit], host: str) -> list[tuple[int, Address]]:
    """Returns where others reach the SPUs that run on this machine, whose address for others is `host`."""
    found = []
    for visit in visits:
        if visit.description is None or visit.target.server == SC_ID:
            continue
        if is_loopback(visit.target.address.host) or visit.target.address.host == host:
            for each in visit.description.listeners:
                if each.host in WILDCARD_HOSTS:
                    found.append((visit.target.server, Address(host, each.port)))
    return list(dict.fromkeys(found))


# links


def link_findings(visits: Sequence[Visit], online: Sequence[int]) -> list[Finding]:
    """Judges whether SPUs reach the SPUs that they follow; `online` are the SPUs that the cluster counts as online."""
    unlinked = {(visit.target.server, leader) for visit in _one_each(visits) for leader in visit.unlinked}
    found = [
        Finding(
            Level.PROBLEM,
            "links",
            f"SPU {follower} follows SPU {leader} and has no connection to it, so its replicas lag.",
            f"Check that SPU {follower} reaches the private address of SPU {leader}, which `tailrace spu list` shows.",
        )
        for follower, leader in sorted(unlinked)
        if leader in online
    ]
    if not found and len(online) > 1:
        found.append(Finding(Level.OK, "links", "Every SPU is connected to the SPUs that it follows."))
    return found


# clocks


def clock_findings(visits: Sequence[Visit]) -> list[Finding]:
    """Judges how far the clocks of servers are from the clock of this machine."""
    found, offsets = [], []
    for visit in _one_each(visits):
        offset, uncertain = clock_offset_ms(visit)
        offsets.append(abs(offset) + uncertain)
        apart = max(abs(offset) - uncertain, 0)
        if apart < CLOCK_WARNING_MS:
            continue
        direction = "ahead of" if offset > 0 else "behind"
        found.append(
            Finding(
                Level.PROBLEM if apart >= CLOCK_PROBLEM_MS else Level.WARNING,
                "clocks",
                f"The clock of {visit.name} is {abs(offset) / 1000:.1f} s {direction} that of this machine.",
                "Run a time service such as chrony on each machine: retention, and reading by time, use the clocks.",
            )
        )
    if not offsets:
        found.append(Finding(Level.WARNING, "clocks", "No server has told its time.", "Upgrade the servers."))
    elif not found:
        most = max(offsets)
        found.append(
            Finding(Level.OK, "clocks", f"The clocks of all servers agree with this machine's within {most} ms.")
        )
    return found


def clock_offset_ms(visit: Visit) -> tuple[int, int]:
    """Returns how far a server's clock is ahead of ours, and how uncertain that is, in milliseconds."""
    middle = (visit.sent_ms + visit.received_ms) // 2
    return _described(visit).now_ms - middle, (visit.received_ms - visit.sent_ms + 1) // 2


# disks and limits


def disk_findings(visits: Sequence[Visit]) -> list[Finding]:
    """Judges the free space of the servers' disks, and the limits of their storage."""
    found, free = [], []
    for visit in _one_each(visits):
        described = _described(visit)
        if described.disk_bytes > 0:
            free.append(described.disk_free_bytes)
            part = described.disk_free_bytes / described.disk_bytes
            if part < DISK_WARNING:
                found.append(
                    Finding(
                        Level.PROBLEM if part < DISK_PROBLEM else Level.WARNING,
                        "disks",
                        f"The disk of {visit.name} ({described.data_directory}) has "
                        f"{size_text(described.disk_free_bytes)} free, {100 * part:.0f} % of it.",
                        "Shorten retention, delete topics, or use a larger disk: a full disk takes replicas offline.",
                    )
                )
        if described.storage_max > 0 and described.storage_used >= STORAGE_WARNING * described.storage_max:
            is_full = described.storage_used >= described.storage_max
            found.append(
                Finding(
                    Level.PROBLEM if is_full else Level.WARNING,
                    "disks",
                    f"{capitalized(visit.name)} has used {size_text(described.storage_used)} of the "
                    f"{size_text(described.storage_max)} that it may store.",
                    "Raise the storage size of the SPU or of its group's template: a full SPU refuses producers.",
                )
            )
    if not found:
        text = f"Every disk has room: at least {size_text(min(free))} are free." if free else "No server uses a disk."
        found.append(Finding(Level.OK, "disks", text))
    return found


def limit_findings(visits: Sequence[Visit]) -> list[Finding]:
    """Judges the limits of open files and of memory."""
    found, limits = [], []
    for visit in _one_each(visits):
        described = _described(visit)
        name = capitalized(visit.name)
        most, used = described.descriptors_max, described.descriptors_used
        if most > 0:
            limits.append(most)
            if used >= USED_WARNING * most or most < DESCRIPTORS_FEW:
                found.append(
                    Finding(
                        Level.PROBLEM if used >= USED_PROBLEM * most else Level.WARNING,
                        "limits",
                        f"{name} may open {most} files and connections, and has {max(used, 0)} open.",
                        "Raise the hard limit of open files (`ulimit -Hn`, or LimitNOFILE in a systemd unit) to 65536.",
                    )
                )
        memory, memory_max = described.memory_used, described.memory_max
        if memory > 0 and memory_max > 0 and memory >= USED_WARNING * memory_max:
            found.append(
                Finding(
                    Level.PROBLEM if memory >= USED_PROBLEM * memory_max else Level.WARNING,
                    "limits",
                    f"{name} uses {size_text(memory)} of {size_text(memory_max)} of memory.",
                    "Give it more memory, or fewer partitions and clients: the system kills a process without memory.",
                )
            )
    if not found:
        files = f"at least {min(limits)} open files" if limits else "any number of open files"
        found.append(Finding(Level.OK, "limits", f"Every server may have {files}, and has enough memory."))
    return found


# certificates


def certificate_findings(visits: Sequence[Visit]) -> list[Finding]:
    """Judges how long the certificates of servers are valid, by the clocks of the servers."""
    found, all_left = list[Finding](), list[int]()
    for visit in _one_each(visits):
        described = _described(visit)
        listeners: dict[tuple[str, bool, int], list[str]] = {}
        for each in described.certificates:
            listeners.setdefault((each.name, each.is_authority, each.expires_ms), []).append(each.listener)
        for (name, is_authority, expires_ms), of in listeners.items():
            left = (expires_ms - described.now_ms) // DAY_MS
            all_left.append(left)
            if left >= CERTIFICATE_DAYS_MIN:
                continue
            what = "authority" if is_authority else "certificate"
            when = "has expired" if left < 0 else f"expires in {counted(left, 'day')}"
            found.append(
                Finding(
                    Level.WARNING if left >= CERTIFICATE_DAYS_PROBLEM else Level.PROBLEM,
                    "certificates",
                    f"The {what} {name} of {visit.name} {when} (listeners: {listed(of)}).",
                    "Renew it: `tailrace certificate renew`, a restart of `tailrace up --secure`, or your authority. "
                    "Servers take over changed files by themselves.",
                )
            )
    if all_left and not found:
        found.append(Finding(Level.OK, "certificates", f"All certificates are valid for {min(all_left)} days or more."))
    return found


# versions


def version_findings(visits: Sequence[Visit], own_version: str) -> list[Finding]:
    """Judges whether all servers and this command run the same versions."""
    silent = sorted({each.name for each in visits if each.description is None and not each.fault})
    servers = _one_each(visits)
    found = []
    if silent:
        found.append(
            Finding(
                Level.WARNING,
                "versions",
                f"{capitalized(listed(silent))} cannot describe {'itself' if len(silent) == 1 else 'themselves'}.",
                "Upgrade to the version of this command.",
            )
        )
    if not servers:
        return found
    tailrace = _grouped([(_described(each).software_version, each.name) for each in servers])
    if len(tailrace) > 1 or own_version not in tailrace:
        text = "; ".join(f"{version}: {listed(names, 6)}" for version, names in tailrace.items())
        own = "" if own_version in tailrace else f"; {own_version}: this command"
        found.append(
            Finding(
                Level.WARNING,
                "versions",
                f"Several versions of Tailrace run ({text}{own}).",
                "Finish the upgrade: servers can be upgraded one after the other.",
            )
        )
    libraries = _grouped(
        [(f"{library.name} {library.version}", each.name) for each in servers for library in _described(each).libraries]
    )
    partial = [library for library, names in libraries.items() if len(names) < len(servers)]
    pythons = _grouped([(_described(each).python_version, each.name) for each in servers])
    if partial or len(pythons) > 1:
        differing = [*(f"Python {each}" for each in pythons if len(pythons) > 1), *partial]
        found.append(
            Finding(
                Level.WARNING,
                "versions",
                f"Servers run with different libraries: {listed(differing, 6)}.",
                "Install the same versions on each machine.",
            )
        )
    if not found:
        found.append(
            Finding(
                Level.OK,
                "versions",
                f"{counted(len(servers), 'server')} and this command run Tailrace {own_version}; the servers have "
                f"Python {next(iter(pythons))} and the same libraries.",
            )
        )
    return found


def _one_each(visits: Sequence[Visit]) -> list[Visit]:
    """Returns one visit of each server that has described itself."""
    found: dict[int, Visit] = {}
    for visit in visits:
        if visit.description is not None:
            found.setdefault(visit.description.spu_id, visit)
    return list(found.values())


def _described(visit: Visit) -> DescribeServerResponse:
    assert visit.description is not None
    return visit.description


def _grouped(pairs: Sequence[tuple[str, str]]) -> dict[str, list[str]]:
    grouped: dict[str, list[str]] = {}
    for key, name in pairs:
        grouped.setdefault(key, []).append(name)
    return grouped

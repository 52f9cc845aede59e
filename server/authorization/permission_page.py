"""Writes the table of permissions into docs/security.md.

Run `python -m tailrace.server.authorization.permission_page` in the root of the sources when the table changes. A test
compares the page with the table.
"""

from pathlib import Path

from tailrace.protocol.apis import API_TABLE, message_name
from tailrace.protocol.internal_apis import SC_OBJECT_APIS, SPU_OBJECT_APIS
from tailrace.security.acls.acl_codes import Operation, ResourceType, name_of

from .authorization_row import Check, Row
from .authorization_table import TABLE

PAGE = "docs/security.md"
BEGIN = "<!-- the table of permissions, written by tailrace.server.authorization.permission_page -->"
END = "<!-- the end of the table of permissions -->"
_TITLES = ("API", "Needs", "Otherwise")


def lines() -> list[str]:
    """Returns the lines of the table."""
    served = {**API_TABLE, **SC_OBJECT_APIS, **SPU_OBJECT_APIS}
    found = [_line(_TITLES), "|---|---|---|"]
    for key in sorted(served):
        row = TABLE[key]
        found += [_line((message_name(row.api), row.note, ""))] if not row.checks else _of_checks(row)
    return found


def _of_checks(row: Row) -> list[str]:
    return [
        _line((message_name(row.api) if number == 0 else "", _needs(check), _otherwise(check)))
        for number, check in enumerate(row.checks)
    ]


def _line(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |".replace("|  |", "| |")


def _needs(check: Check) -> str:
    texts = [_permission(check.operation, check.resource)]
    if check.with_cluster is not None:
        texts.append(_permission(check.with_cluster, ResourceType.CLUSTER))
    if check.with_some is not None:
        texts.append(f"{_permission(*check.with_some)} of any name")
    return " or ".join(texts) + (f" ({check.when})" if check.when else "")


def _permission(operation: Operation, resource: ResourceType) -> str:
    return f"{name_of(operation)} on {name_of(resource)}"


def _otherwise(check: Check) -> str:
    return "left out" if check.hides else check.error.name


def written(page: str) -> str:
    """Returns the page with the table of permissions in its place."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    assert begin and end, "the page has the markers of the table"
    return "\n".join((f"{before}{BEGIN}", "", *lines(), "", f"{END}{after}"))


if __name__ == "__main__":
    path = Path(PAGE)
    path.write_text(written(path.read_text()))

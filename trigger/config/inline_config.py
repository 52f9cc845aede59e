"""Finds the configuration that a file of Nuclio has in its comments, after `# @nuclio.configure`. Pure."""

import re

MARK = "@nuclio.configure"
FIELD = "function.yaml"
"""The name of the field that has the configuration. Nuclio allows other files beside it."""
_COMMENT = re.compile(r"\s*#(?: ?)(.*)")


def inline_document(source: str) -> str | None:
    """Returns the YAML in the comments of a Python file; None if it has none.

    The text has an empty line for each line of the file that does not belong to it, so that lines keep their numbers.
    """
    if MARK not in source:
        return None
    kept: list[str] = []
    is_inside = has_been_inside = False
    for line in source.splitlines():
        comment = _COMMENT.fullmatch(line)
        content = "" if comment is None else comment[1]
        if not has_been_inside and content.strip() == MARK:
            is_inside = has_been_inside = True
            kept.append("")
            continue
        is_inside = is_inside and comment is not None
        kept.append(content if is_inside else "")
    return "\n".join(kept) if has_been_inside else None

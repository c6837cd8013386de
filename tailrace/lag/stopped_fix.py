"""What to do about a stopped table: its reason's own fix, and the command in it."""

from __future__ import annotations

import re
import shlex
from typing import Final, NamedTuple

_FIX: Final = "Fix: "
_COMMAND: Final = re.compile(
    r"kafka-configs(?:\.sh)?(?: --[a-z-]+(?: (?!--)[^\s,;()]+)?)+"
    # Arguments of ours are options, quoted names, or names with a dot: what follows is prose.
    r"|tailrace [a-z-]+(?: --[a-z-]+| '[^']*'| [^\s,;():]+\.[^\s,;():]+)*"
)
_SNAPSHOT: Final = "tailrace snapshot"
_MISSING: Final = "missing"
OF_SINK: Final = "sink: "
"""How a reason begins if the sink has stopped the table."""


class TableFix(NamedTuple):
    """What to do about one stopped table.

    Attributes:
        text: in words, before the command; empty if the command is enough.
        command: the first command of the reason's fix, else what brings the table back.
        runbook: the page about it, without ``.md``.
    """

    text: str
    command: str
    runbook: str


def fix_of(table: str, state: str, reason: str) -> TableFix:
    """Take the fix from a table's reason; a new snapshot is the last step of every other one."""
    runbook = "LakeTableStopped" if reason.startswith(OF_SINK) else "TableStopped"
    fix = reason.partition(_FIX)[2].strip().rstrip(".")
    found = _COMMAND.search(fix or reason)
    if found is None and state == _MISSING:  # its snapshot begins as soon as it is captured
        return TableFix(fix, "tailrace doctor", runbook)
    command = _SNAPSHOT if found is None else found[0].rstrip(".")
    if command == _SNAPSHOT:
        command += f" {shlex.quote(table)}"
    if found is None:
        fix = f"{fix or 'remove the cause'}, then"
    return TableFix(fix, command, runbook)

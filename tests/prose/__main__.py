"""`python -m tests.prose` renews allowed.txt, downwards only; with paths it prints their faults."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.prose import counts, rules


def main() -> int:
    """Print the faults of some files, or renew the counts."""
    if sys.argv[1:]:
        for name in sys.argv[1:]:
            for fault in rules.faults(Path(name)):
                print(f"{name}:{fault.line}: {fault.text!r}: {fault.instead}")  # noqa: T201
        return 0
    grown = counts.grown()
    if grown:
        print("\n".join(grown), file=sys.stderr)  # noqa: T201
        return 1
    counts.write()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

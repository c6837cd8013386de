"""Names lake tables in the catalog, in a process of its own (ADR 0073).

It reads one order from standard input: settings of Spark, catalog, and the names to remove and to
give. It writes one line of JSON for each name to standard output. The order is not on the command
line, because settings can contain keys.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any, Final

from tailrace_sink.delta.registration import carry_out
from tailrace_sink.spark.session import session_with

_NICENESS: Final = 10
"""A name may be some seconds late; a cut of the sink on the same processors may not."""


def main() -> None:
    """Carry out the order."""
    os.nice(_NICENESS)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # Spark and its JVM print, too
    order: dict[str, Any] = json.load(sys.stdin)
    spark = session_with(order["settings"])
    try:
        for answer in carry_out(spark, order):
            answers.write(json.dumps(answer) + "\n")
            answers.flush()
    finally:
        spark.stop()


if __name__ == "__main__":
    main()

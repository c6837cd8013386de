"""What stands in ``lake-0.1.tar.gz``: a lake of the release without a log, and its source.

The lake was written by the sink of 0.1 where ``step`` is called below. It was broken off in the
last one: one of the tables has it, and no commit row tells of it. The snapshot of ``late`` waits. A
test publishes the same source again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from tests.envelopes.source import Source
from tests.envelopes.tables import column

PREFIX = "lake01"
OPTIONS = {
    "changelog": {"include": [r"dbo\.keyed"]},
    "merge_pool": 1,
    "retention": {"days": 36_500},  # the archive's cuts are of a day that is ever longer ago
}


def publish_first_half(source: Source, step: Callable[[str], None]) -> Counter[tuple[str, int]]:
    """Publish what the old lake was made of.

    Args:
        source: of the prefix, with a registry and topics of its own.
        step: called when the sink of 0.1 applied what there was; ``broken off`` in the last part.

    Returns:
        The changes of ``keyed``: op and id.
    """
    key = column(1, "id", "int", key=1)
    keyed = source.table("keyed", key, column(2, "name", "nvarchar(20)"))
    lines = source.table("lines", column(1, "line", "varchar(20)"))
    late = source.table("late", key, column(2, "text", "nvarchar(max)"))
    source.commit(*(lambda t, n=n: t.insert(keyed, id=n, name=f"row {n}") for n in range(6)))
    source.commit(lambda t: t.insert(lines, line="one"))
    source.publish()
    step("cut")
    source.alter(keyed, key, column(2, "title", "nvarchar(20)"), column(3, "more", "date"))
    source.commit(
        lambda t: t.update(keyed, (1,), title="renamed"),
        lambda t: t.delete(keyed, (2,)),
        lambda t: t.insert(lines, line="two"),
    )
    source.publish()
    step("cut")
    source.snapshot(late, [{"id": n, "text": "x" * n} for n in range(3)])
    source.commit(lambda t: t.insert(keyed, id=10, title="ten"))
    source.publish(snapshotting=[late])
    step("cut")
    source.commit(
        lambda t: t.insert(keyed, id=11, title="eleven"),
        lambda t: t.insert(lines, line="three"),
        lambda t: t.update(late, (1,), text="changed"),
    )
    source.publish(snapshotting=[late])
    step("broken off")
    changes = Counter([*(("c", n) for n in (*range(6), 10, 11)), ("u", 1), ("d", 2)])
    return changes

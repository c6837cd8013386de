"""SQL conditions and expressions on the log.

Spark writes the numbers of an expression into the code that it generates, and compiles each new
code. Texts, bytes and arrays are passed by reference. So in reads and writes of many rows, numbers
that change with every cut are looked up in array literals (ADR 0033).
"""

from __future__ import annotations

from collections.abc import Iterable

from tailrace_sink.plan.topic_ranges import TopicRange
from tailrace_sink.tables.lake_table import literal


def batches_condition(found: TopicRange) -> str:
    """Condition on the cuts that may have events of a range, to choose files."""
    condition = f"topic = {literal(found.topic)} AND batch >= {found.from_batch}"
    return f"{condition} AND batch <= {found.to_batch}" if found.to_batch else condition


def stable_condition(found: TopicRange) -> str:
    """:func:`exact_condition` without numbers in the generated code."""
    every = range(max(found.partitions) + 1)
    firsts = ", ".join(f"{found.partitions.get(partition, (0, 0))[0]}L" for partition in every)
    ends = ", ".join(f"{found.partitions.get(partition, (0, 0))[1]}L" for partition in every)
    conditions = [
        f"topic = {literal(found.topic)}",
        f"batch >= {looked_up(found.from_batch)}",
        f"offset >= get(array({firsts}), partition)",
        f"offset < get(array({ends}), partition)",
    ]
    if found.to_batch:
        conditions.append(f"batch <= {looked_up(found.to_batch)}")
    return " AND ".join(conditions)


def schema_id_sql(known: Iterable[int]) -> str:
    """Expression of the schema id in the frame of the column ``value``.

    Args:
        known: ids that the ledger names; these need no conversion for each row.
    """
    frame = "substring(value, 2, 4)"
    # A foreign record without a schema id must not fail the cut.
    other = f"try_cast(conv(hex({frame}), 16, 10) AS INT)"
    cases = " ".join(f"WHEN X'{schema_id:08X}' THEN {schema_id}" for schema_id in sorted(known))
    return f"CASE {frame} {cases} ELSE {other} END" if cases else other


def looked_up(number: int) -> str:
    """Expression of a number that does not appear in Spark's generated code."""
    return f"get(array({number}L), least(partition, 0))"


def exact_condition(found: TopicRange) -> str:
    """Condition on the rows of a range, which Delta and Parquet compare with statistics."""
    offsets = " OR ".join(
        f"(partition = {partition} AND offset >= {first} AND offset < {end})"
        for partition, (first, end) in found.partitions.items()
    )
    batches = f"batch >= {found.from_batch}"
    if found.to_batch:
        batches += f" AND batch <= {found.to_batch}"
    return f"(topic = {literal(found.topic)} AND {batches} AND ({offsets}))"

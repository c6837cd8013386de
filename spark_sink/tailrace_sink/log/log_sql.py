"""SQL of the log's columns: which rows are wanted, and what is computed of them.

Spark has the numbers of an expression in the text of the code that it generates, and compiles
another text anew. Texts, bytes and arrays it passes by reference. So what changes with every cut is
looked up in literals of arrays where many rows are read or written (ADR 0033).
"""

from __future__ import annotations

from collections.abc import Iterable

from tailrace_sink.plan.topic_ranges import TopicRange
from tailrace_sink.tables.lake_table import literal


def batches_condition(found: TopicRange) -> str:
    """Which cuts may have some of a range: what files are chosen by."""
    condition = f"topic = {literal(found.topic)} AND batch >= {found.from_batch}"
    return f"{condition} AND batch <= {found.to_batch}" if found.to_batch else condition


def stable_condition(found: TopicRange) -> str:
    """``exact_condition`` without a number in it."""
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
    """The schema id in the frame of a column ``value``.

    Args:
        known: the ids that the ledger names: they cost no conversion of each row.
    """
    frame = "substring(value, 2, 4)"
    # Whoever wrote it: what is no schema id must not fail the cut.
    other = f"try_cast(conv(hex({frame}), 16, 10) AS INT)"
    cases = " ".join(f"WHEN X'{schema_id:08X}' THEN {schema_id}" for schema_id in sorted(known))
    return f"CASE {frame} {cases} ELSE {other} END" if cases else other


def looked_up(number: int) -> str:
    """A number that the generated code of a query on the log does not have in its text."""
    return f"get(array({number}L), least(partition, 0))"


def exact_condition(found: TopicRange) -> str:
    """The rows of a range, as Delta and Parquet compare them with statistics."""
    offsets = " OR ".join(
        f"(partition = {partition} AND offset >= {first} AND offset < {end})"
        for partition, (first, end) in found.partitions.items()
    )
    batches = f"batch >= {found.from_batch}"
    if found.to_batch:
        batches += f" AND batch <= {found.to_batch}"
    return f"(topic = {literal(found.topic)} AND {batches} AND ({offsets}))"

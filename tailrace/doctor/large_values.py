"""Large columns: may their values have more bytes than their topic takes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tailrace.doctor.asking import Source
from tailrace.doctor.findings import Finding, Judge, Part, topic_fix
from tailrace_publisher.deliver.producer_options import MESSAGE_BYTES_MAX
from tailrace_publisher.options.publisher_config import PublisherConfig
from tailrace_schemas.topics.topic_names import TableName

_JUDGE: Final = Judge(Part.KAFKA)
_DEFAULT_BYTES: Final = 65_536
_COLUMNS: Final = (
    "SELECT DISTINCT s.name, t.name, c.name FROM cdc.change_tables AS i"
    " JOIN cdc.captured_columns AS k ON k.object_id = i.object_id"
    " JOIN sys.columns AS c ON c.object_id = i.source_object_id AND c.column_id = k.column_id"
    " JOIN sys.tables AS t ON t.object_id = i.source_object_id"
    " JOIN sys.schemas AS s ON s.schema_id = t.schema_id"
    # image, text, ntext and xml; -1 is what varchar(max) and its like have.
    " WHERE c.max_length = -1 OR c.system_type_id IN (34, 35, 99, 241)"
)
"""See: cdc.captured_columns (Transact-SQL); sys.columns (Transact-SQL)."""


@dataclass(frozen=True, slots=True)
class LargeValues:
    """How large values of captured columns may be.

    Attributes:
        most: bytes of one; None: 2 GB.
        columns: the large columns of each topic's table.
    """

    most: int | None = _DEFAULT_BYTES
    columns: Mapping[str, Sequence[str]] = field(default_factory=dict)


def large_values(source: Source, config: PublisherConfig) -> LargeValues:
    """Ask the source; nothing is known of what the login may not see.

    See: Configure the max text repl size Server Configuration Option.

    Raises:
        SourceError: the server did not answer.
    """
    row = source.row(
        "largest captured value",
        "SELECT CAST(value_in_use AS bigint) FROM sys.configurations WHERE name ="
        " N'max text repl size (B)'",
    )
    columns: defaultdict[str, list[str]] = defaultdict(list)
    for schema, table, column in source.rows("large columns", _COLUMNS) or ():
        name = TableName(source.database, str(schema), str(table))
        if config.tables.selects(name):
            columns[config.topics.data(name)].append(str(column))
    most = _DEFAULT_BYTES if row is None else int(row[0])
    return LargeValues(None if most < 0 else most, columns)


def look_at_large_values(
    found: LargeValues, settings: Mapping[str, Mapping[str, str]]
) -> Iterator[Finding]:
    """Compare them with the topics' limits.

    Args:
        settings: of topics, by name, as far as they may be seen.
    """
    for topic, columns in sorted(found.columns.items()):
        limit = settings.get(topic, {}).get("max.message.bytes", "")
        if not limit.isdigit() or (found.most is not None and found.most <= int(limit)):
            continue
        most = "2 GB" if found.most is None else f"{found.most:,} bytes"
        yield _JUDGE.warning(
            topic,
            f"takes {int(limit):,} bytes, and a value of {', '.join(sorted(columns))} may have"
            f" {most} (sp_configure 'max text repl size')",
            "an event that is larger stops its table (RecordTooLarge)",
            topic_fix(topic, {"max.message.bytes": str(MESSAGE_BYTES_MAX)}),
        )

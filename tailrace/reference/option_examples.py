"""Examples of the options whose value is a mapping or a list, for docs/configuration.md.

The key is the end of the option's path. A test reads each example as the option's value.
"""

from __future__ import annotations

from typing import Any, Final

_TABLES: Final = [r"dbo\.order.*", r"sales\..*"]

EXAMPLES: Final[dict[str, Any]] = {
    "source.odbc": {"MultiSubnetFailover": "Yes"},
    "kafka.extra": {"security.protocol": "SASL_SSL", "sasl.username": "tailrace"},
    "kafka.extra_files": {"sasl.password": "/run/secrets/kafka"},
    "kafka.topic_settings": {"retention.ms": "604800000"},
    "kafka.topic_rules": {r"dbo\.orders": {"partitions": 12}},
    "publisher.topic_names": {r"dbo\..*": "{prefix}.{table}"},
    "publisher.message_keys": {"dbo.audit": ["id", "at"]},
    "publisher.lossless_columns": {"dbo.trades": ["executed_at"]},
    "tables.include": _TABLES,
    "tables.exclude": [r"dbo\.audit"],
    "changelog.include": _TABLES,
    "changelog.exclude": [r"dbo\.audit"],
    "columns.include": [r"dbo\.users\.(id|name)", r"sales\..*"],
    "columns.exclude": [r"dbo\.users\.password"],
    "columns.mask": {r"dbo\.users\.phone": "***"},
    "columns.truncate": {r"dbo\.users\.note": 20},
    "columns.hash": [r"dbo\.users\.email"],
    "skip.operations": {r"dbo\.audit": ["u", "d"]},
    "snapshot.where": {r"dbo\.audit": "at >= '2026-01-01'"},
    "start.time": "2026-01-31T06:00:00Z",
    "shards.pinned": {"dbo.orders": 0},
    "tracing.headers": {"x-tenant": "shop"},
    "tracing.headers_files": {"authorization": "/run/secrets/collector"},
    "sink.partition_by": {"dbo.orders": ["region"]},
    "sink.cluster_by": {"dbo.orders": ["customer_id"]},
    "sink.table_properties": {"delta.logRetentionDuration": "interval 30 days"},
    "sink.spark": {"spark.driver.memory": "8g"},
}


def example(path: str) -> Any:
    """Return the example of an option, None if it has none."""
    return EXAMPLES.get(".".join(path.split(".")[-2:]))

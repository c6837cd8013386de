"""Examples of the options whose value is not obvious, for docs/configuration.md.

The key is the end of the option's path. A test reads each example as the option's value.
"""

from __future__ import annotations

from typing import Any, Final

_TABLES: Final = [r"dbo\.order.*", r"sales\..*"]

EXAMPLES: Final[dict[str, Any]] = {
    "publisher.prefix": "shop",
    "publisher.metrics_port": 9101,
    "publisher.http_token_file": "/run/secrets/publisher_token",
    "source.host": "sql1.example.net",
    "source.database": "Shop",
    "source.user": "tailrace",
    "source.password_file": "/run/secrets/sqlserver",
    "source.time_zone": "W. Europe Standard Time",
    "source.driver": "ODBC Driver 18 for SQL Server",
    "source.odbc": {"MultiSubnetFailover": "Yes"},
    "kafka.bootstrap": "k1.example.net:9092,k2.example.net:9092",
    "kafka.oauth_callback": "acme.tokens:broker_token",
    "kafka.extra": {"security.protocol": "SASL_SSL", "sasl.username": "tailrace"},
    "kafka.extra_files": {"sasl.password": "/run/secrets/kafka"},
    "kafka.topic_settings": {"retention.ms": "604800000"},
    "kafka.topic_rules": {r"dbo\.orders": {"partitions": 12}},
    "registry.url": "https://registry.example.net:8081",
    "registry.user": "tailrace",
    "registry.password_file": "/run/secrets/registry",
    "registry.token_file": "/run/secrets/registry_token",
    "registry.ca_file": "/etc/ssl/authorities.pem",
    "registry.client_certificate": "/etc/ssl/tailrace.pem",
    "registry.client_key": "/etc/ssl/tailrace.key",
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
    "columns.salt_file": "/run/secrets/salt",
    "skip.operations": {r"dbo\.audit": ["u", "d"]},
    "snapshot.where": {r"dbo\.audit": "at >= '2026-01-01'"},
    "start.lsn": "0000002a:000001f0:0003",
    "start.debezium_file": "/var/lib/debezium/offsets.dat",
    "start.debezium_topic": "connect-offsets",
    "start.time": "2026-01-31T06:00:00Z",
    "publisher.outbox": {r"dbo\.outbox": {"headers": {"id": "id"}}},
    "tracing.endpoint": "http://collector.example.net:4318/v1/traces",
    "tracing.headers": {"x-tenant": "shop"},
    "tracing.headers_files": {"authorization": "/run/secrets/collector"},
    "sink.prefix": "shop",
    "sink.lake": "s3a://lake/shop",
    "sink.checkpoint_location": "s3a://lake/checkpoints/shop",
    "sink.bytes_per_batch": 268_435_456,
    "sink.metrics_port": 9102,
    "sink.http_token_file": "/run/secrets/sink_token",
    "s3.endpoint": "http://minio.example.net:9000",
    "s3.region": "eu-central-1",
    "s3.access_key_file": "/run/secrets/s3_key_id",
    "s3.secret_key_file": "/run/secrets/s3_key",
    "s3.role": "arn:aws:iam::123456789012:role/lake",
    "sink.partition_by": {"dbo.orders": ["region"]},
    "sink.cluster_by": {"dbo.orders": ["customer_id"]},
    "sink.table_properties": {"delta.logRetentionDuration": "interval 30 days"},
    "sink.kinds": {r"dbo\.orders": ["mirror", "changelog", "history"]},
    "sink.schema_modes": {r"dbo\.invoices": "fail"},
    "sink.spark": {"spark.driver.memory": "8g"},
}


def example(path: str) -> Any:
    """Return the example of an option, None if it has none."""
    return EXAMPLES.get(".".join(path.split(".")[-2:]))

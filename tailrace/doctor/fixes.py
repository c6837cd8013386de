"""Runs the fixes that are safe, each after it was shown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import click
from confluent_kafka import KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from tailrace.doctor.findings import Finding, Fix
from tailrace_publisher.errors import SourceError
from tailrace_publisher.options.broker_waits import MARGIN_S
from tailrace_publisher.options.kafka import KafkaConfig
from tailrace_publisher.options.publisher_config import PublisherConfig
from tailrace_publisher.source.connection.connection import OdbcConnection


def run_safe_fixes(config: PublisherConfig, findings: Iterable[Finding], *, ask: bool) -> None:
    """Show each fix that is safe, and run it."""
    fixes = {f.fix.text: (f.subject, f.fix) for f in findings if f.fix and f.fix.is_safe}
    if not fixes:
        click.echo("There is nothing that --fix may fix.", err=True)
    for subject, fix in fixes.values():
        click.echo(f"{subject}: {fix.text}", err=True)
        if ask and not click.confirm("Run it?", err=True):
            continue
        try:
            _run(config, fix)
        except (SourceError, KafkaException, TimeoutError) as error:
            click.echo(f"It failed: {error}", err=True)
        else:
            click.echo("Done.", err=True)


def _run(config: PublisherConfig, fix: Fix) -> None:
    if fix.topic is not None:
        _alter_topic(config.kafka, fix.topic, fix.settings)
        return
    with OdbcConnection(config.source) as connection:
        connection.query_sets(fix.text)


def _alter_topic(kafka: KafkaConfig, name: str, settings: Mapping[str, str]) -> None:
    """Change settings of a topic, and leave its others as they are.

    Raises:
        KafkaException: the brokers refused the change.
        TimeoutError: they did not answer in time.
    """
    entries = [
        ConfigEntry(setting, value, incremental_operation=AlterConfigOpType.SET)
        for setting, value in settings.items()
    ]
    topic = ConfigResource(ResourceType.TOPIC, name, incremental_configs=entries)
    admin = AdminClient({**kafka.connection(), "log_level": 0})
    asked = admin.incremental_alter_configs([topic], request_timeout=kafka.start_timeout_s)
    for future in asked.values():
        future.result(kafka.start_timeout_s + MARGIN_S)

"""What the page of one table shows when it is opened: schema versions, and a row explained."""

from __future__ import annotations

from typing import TYPE_CHECKING

from confluent_kafka import KafkaException

from tailrace.explain.explain import explain_key_or_moment
from tailrace.explain.report import explanation_lines
from tailrace.lake.errors import LakeUnreadable
from tailrace.reading.change_rows import NotThere
from tailrace.reading.event_text import as_line
from tailrace.reading.moments import Moment, MomentError, parse_moment
from tailrace.reading.newest_events import newest_events
from tailrace.reading.schema_versions import Version, ddl_of, versions_of
from tailrace.reading.table_names import TableNameError, parse_table, splits
from tailrace.verify.verified import VerifiedTable, VerifiedUnreadable, of_json, verified_path
from tailrace.web.browsing import Browsed, searched, wanted_by
from tailrace_publisher.errors import PublisherError
from tailrace_publisher.source.catalog import capture_catalog as catalog
from tailrace_publisher.source.connection.connection import OdbcConnection
from tailrace_schemas.topics.topic_names import TableName
from tailrace_service.registry.access import open_registry
from tailrace_service.registry.client import RegistryError
from tailrace_sink.errors import ConfigError, StoreUnusable

if TYPE_CHECKING:
    from tailrace.settings.settings import Settings

_CHANGES: int = 10
_EVENTS: int = 50


class Details:
    """Query registry, source, topics and lake about one table.

    Raises:
        SettingsError: it is not usable.
    """

    def __init__(self, settings: Settings) -> None:
        self._config = settings.publisher()
        self._lake = settings.sink() if settings.has_sink else None

    def versions(self, table: TableName, problems: list[str]) -> list[Version]:
        """The versions of its schema; what could not be asked goes to the problems."""
        config = self._config
        try:
            ddl = ddl_of(config.source, table)
        except PublisherError as error:
            problems.append(f"without the DDL, which the source has: {error}")
            ddl = {}
        try:
            with open_registry(config.registry) as registry:
                return versions_of(registry, config.topics.data(table), ddl)
        except (RegistryError, ValueError) as error:
            problems.append(str(error))
            return []

    def verified(self, table: str, problems: list[str]) -> VerifiedTable | None:
        """What ``tailrace verify --continuous`` found of a table; None if nothing is known.

        Args:
            problems: gets what could not be read.
        """
        if self._lake is None:
            return None
        from tailrace.lake.store import LakeStore

        try:
            store = LakeStore.of(self._lake.lake, self._lake.store or {})
        except ConfigError:
            return None  # Only Hadoop opens this store.
        path = verified_path("").lstrip("/")
        try:
            text = store.text(path)
            known = {} if text is None else of_json(text, path)
        except (LakeUnreadable, StoreUnusable, VerifiedUnreadable) as error:
            problems.append(str(error))
            return None
        return {name.casefold(): found for name, found in known.items()}.get(table.casefold())

    def explained(self, name: str, key: str, moment: str) -> str:
        """What all stages hold of a row or of a commit, as lines, or why that is not known.

        Args:
            name: of the table, quoted.
            key: of the row; empty where a commit is meant.
            moment: LSN or time of the commit.
        """
        try:
            asked = key or parse_moment(moment)
            found = explain_key_or_moment(
                self._config, self._lake, parse_table(name), asked, _CHANGES
            )
        except (
            *(MomentError, TableNameError, NotThere, PublisherError, RegistryError),
            *(KafkaException, TimeoutError),
        ) as error:
            return str(error)
        return "\n".join(explanation_lines(found, has_lake=self._lake is not None))

    def events(self, table: TableName, since: str, key: str) -> Browsed:
        """Newest events of a table's topic, or why they cannot be read.

        Args:
            since: a time from which the first ones are shown; empty for the newest.
            key: of the row that they are of; empty for all.
        """
        config = self._config
        try:
            since_ms = Moment.parse(None, since).time_ms if since else None
            with open_registry(config.registry) as registry:
                found = newest_events(
                    config.kafka.bootstrap,
                    registry,
                    config.topics.data(table),
                    _EVENTS,
                    since_ms=since_ms,
                    is_wanted=wanted_by(key),
                    extra=config.kafka.librdkafka_options(),
                )
        except KafkaException as error:
            return Browsed((f"Kafka at {config.kafka.bootstrap}: {error.args[0].str()}",))
        except (MomentError, NotThere, RegistryError, TimeoutError, ValueError) as error:
            return Browsed((str(error),))
        return Browsed(tuple(as_line(event, table) for event in found.events), searched(found))

    def name_of(self, table: str) -> TableName | None:
        """Return the table that a name means; None if it means none."""
        found = splits(table)
        if len(found) > 1:  # the source knows which of its dots is the one between
            try:
                with OdbcConnection(self._config.source) as connection:
                    there = {(schema, name) for schema, name, _ in catalog.user_tables(connection)}
            except PublisherError:
                there = set()
            found = [name for name in found if name in there] or found
        return TableName(self._config.source.database, *found[0]) if found else None

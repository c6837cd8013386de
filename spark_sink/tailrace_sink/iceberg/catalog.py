"""An Iceberg catalog through Spark's JVM: metadata of tables, and commits of several at once.

Everything here is public Java API of Iceberg.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from functools import cached_property
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tailrace_sink.errors import (
    ApplyFailed,
    CatalogUnavailable,
    CatalogUnusable,
    SinkError,
)
from tailrace_sink.iceberg.classes import FileClasses, file_classes
from tailrace_sink.iceberg.loaded_table import Change, LoadedTable
from tailrace_sink.iceberg.names import TableId
from tailrace_sink.iceberg.statements import Statements
from tailrace_sink.spark.jvm_errors import cause_classes, translated

_ICEBERG: Final = "org.apache.iceberg.exceptions."
_NO_TABLE: Final = f"{_ICEBERG}NoSuchTableException"
_REFUSED: Final = f"{_ICEBERG}CommitFailedException"
_CONFLICTS: Final = frozenset({_REFUSED, f"{_ICEBERG}ValidationException"})
_FORBIDDEN: Final = f"{_ICEBERG}ForbiddenException"
_DENIED: Final = frozenset({f"{_ICEBERG}NotAuthorizedException", _FORBIDDEN})
_NOT_KNOWN: Final = frozenset(
    {
        _NO_TABLE,
        "java.lang.UnsupportedOperationException",
        f"{_ICEBERG}BadRequestException",
    }
)
_NO_ANSWER: Final = frozenset(
    {
        f"{_ICEBERG}CommitStateUnknownException",
        f"{_ICEBERG}ServiceFailureException",
        f"{_ICEBERG}ServiceUnavailableException",
    }
)
_ATTEMPTS_MAX: Final = 3
"""Of creating a namespace. SeaweedFS fails if another client is just creating it. Iceberg's client
repeats requests that only read."""
_ANSWERED: Final = f"{_ICEBERG}RESTException"
"""The last cause if the server answered with another status; above the cause if nobody did."""


def is_conflict(error: PySparkException | Py4JError) -> bool:
    """Whether a commit of Iceberg or Spark conflicted with another one."""
    return not _CONFLICTS.isdisjoint(cause_classes(error))


class Outcome(Enum):
    """What is known of a commit."""

    DONE = auto()
    REFUSED = auto()
    """A table has moved; nothing is changed, if the commit is all or nothing."""
    UNKNOWN = auto()
    """The answer was lost, late or of a broken server: the commit may be done, or become so."""
    UNSUPPORTED = auto()
    """The catalog does not know such commits, or not these tables."""


@dataclass(frozen=True, slots=True)
class Committed:
    """The outcome of a commit, with the catalog's reason unless it is done."""

    outcome: Outcome
    reason: str = ""


class IcebergCatalog:
    """A catalog that the setting ``spark.sql.catalog.<name>`` of a session names."""

    def __init__(self, spark: SparkSession, name: str) -> None:
        self.name = name
        self._spark = spark

    @cached_property
    def java(self) -> Any:
        """The catalog's Java object.

        Raises:
            CatalogUnusable, ApplyFailed: it cannot be opened.
        """
        with_session: Any = self._spark._jsparkSession  # noqa: SLF001 - no other way in
        jvm: Any = self._spark._jvm  # noqa: SLF001
        try:
            # The manager reads the settings of the thread's active session, not of its own.
            jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(with_session)
            manager = with_session.sessionState().catalogManager()
            return manager.catalog(self.name).icebergCatalog()
        except (PySparkException, Py4JError) as error:
            raise self.failure("opening it", error) from error

    @cached_property
    def jvm(self) -> Any:
        """Iceberg's package in Java."""
        jvm: Any = self._spark._jvm  # noqa: SLF001
        return jvm.org.apache.iceberg

    @cached_property
    def file_classes(self) -> FileClasses:
        """Classes of files and commits."""
        jvm: Any = self._spark._jvm  # noqa: SLF001
        return file_classes(jvm)

    @cached_property
    def statements(self) -> Statements:
        """Statements of Spark with entries in the summaries of their snapshots."""
        return Statements(self._spark)

    @cached_property
    def spark_types(self) -> Any:
        """Spark's class of a schema in Java."""
        jvm: Any = self._spark._jvm  # noqa: SLF001
        return jvm.org.apache.spark.sql.types.StructType

    def ids(self, numbers: Iterable[int]) -> Any:
        """Return a Java set of numbers."""
        jvm: Any = self._spark._jvm  # noqa: SLF001
        found = jvm.java.util.HashSet()
        for number in numbers:
            found.add(number)
        return found

    @property
    def commits_several_tables(self) -> bool:
        """Whether its class knows commits of several tables; its server may not."""
        return str(self.java.getClass().getName()).endswith(".RESTCatalog")

    @cached_property
    def _has_cache(self) -> bool:
        """Whether the session caches tables, which is the default of Iceberg."""
        return str(self.java.getClass().getName()).endswith(".CachingCatalog")

    def identifier(self, name: TableId) -> Any:
        """Return Java's form of a name."""
        parts = self._parts([*name.namespace, name.name])
        return self._identifiers.of(parts)

    def load(self, name: TableId) -> LoadedTable | None:
        """Read the newest metadata of a table; None if there is no such table.

        Raises:
            CatalogUnavailable, CatalogUnusable, ApplyFailed: the catalog failed.
        """
        java = self.java
        try:
            table = java.loadTable(self.identifier(name))
            if self._has_cache:
                table.refresh()
            return LoadedTable(name, table, self._build_from)
        except Py4JError as error:
            if _NO_TABLE in cause_classes(error):
                return None
            raise self.failure(f"loading table {name}", error, name) from error

    def commit(self, changes: Sequence[Change]) -> Committed:
        """Commit changes of several tables by one request.

        Raises:
            CatalogUnusable: the catalog refuses the credentials.
            ApplyFailed: it failed in another way.
        """
        commits = self._list()
        for change in changes:
            name = self.identifier(change.table)
            commits.add(self._commits.create(name, change.base, change.changed))
        return self._outcome(lambda: self.java.commitTransaction(commits))

    def commit_one(self, change: Change) -> Committed:
        """Commit the change of one table.

        Raises:
            As :meth:`commit`.
        """
        commit, of = change.operations.commit, change.table
        return self._outcome(lambda: commit(change.base, change.changed), of)

    def drop(self, name: TableId) -> None:
        """Drop a table with its files; without them if the catalog forbids that.

        Raises:
            As :meth:`load`.
        """
        # Polaris forbids it unless its DROP_WITH_PURGE_ENABLED is set.
        for with_files in (True, False):
            try:
                self.java.dropTable(self.identifier(name), with_files)
            except Py4JError as error:
                if with_files and _FORBIDDEN in cause_classes(error):
                    continue
                raise self.failure(f"dropping table {name}", error) from error
            return

    def ensure_namespace(self, name: TableId) -> None:
        """Create the namespace of a table, with those above it, if there is none.

        Raises:
            As :meth:`load`.
        """
        try:
            for length in range(1, len(name.namespace) + 1):
                space = self._namespace(name.namespace[:length])
                if not self.java.namespaceExists(space):
                    self._create_namespace(space)
        except Py4JError as error:
            raise self.failure(f"creating namespace {'.'.join(name.namespace)}", error) from error

    def failure(
        self, step: str, error: PySparkException | Py4JError, table: TableId | None = None
    ) -> SinkError:
        """Translate an error of Iceberg or Spark.

        Args:
            table: the only one that the step is about.
        """
        classes, failed = cause_classes(error), translated(step, error)
        reason = failed.reason if isinstance(failed, ApplyFailed) else str(failed)
        if table is not None and _FORBIDDEN in classes and self._may_see(table.namespace):
            # A catalog may forbid one table to a login. It fails alone, and stops alone.
            return ApplyFailed(step, f"{reason}. Give the sink its rights on this table", classes)
        if not _DENIED.isdisjoint(classes):
            return CatalogUnusable(
                self.name,
                f"it refused {step} ({reason})",
                "check the credential or token among the catalog's options, and its rights there",
            )
        if not _NO_ANSWER.isdisjoint(classes) or _is_unanswered(classes):
            return CatalogUnavailable(self.name, step, reason)
        return failed

    def _may_see(self, namespace: Sequence[str]) -> bool:
        """Whether the catalog answers about the namespace of a table that it forbids."""
        try:
            return bool(self.java.namespaceExists(self._namespace(namespace)))
        except Py4JError:
            return False

    def _namespace(self, parts: Sequence[str]) -> Any:
        return self.jvm.catalog.Namespace.of(self._parts(parts))

    def _outcome(self, run: Any, table: TableId | None = None) -> Committed:
        try:
            run()
        except Py4JError as error:
            classes = cause_classes(error)
            step = "a commit" if table is None else f"a commit to table {table}"
            failed = self.failure(step, error, table)
            reason = str(failed)
            if isinstance(failed, ApplyFailed | CatalogUnavailable):
                reason = failed.reason
            if _REFUSED in classes:
                return Committed(Outcome.REFUSED, reason)
            if isinstance(failed, CatalogUnavailable):
                return Committed(Outcome.UNKNOWN, reason)
            if not _NOT_KNOWN.isdisjoint(classes) or _ANSWERED in classes:
                return Committed(Outcome.UNSUPPORTED, reason)
            raise failed from error
        return Committed(Outcome.DONE)

    def _create_namespace(self, space: Any) -> None:
        for attempt in range(1, _ATTEMPTS_MAX + 1):
            try:
                self.java.createNamespace(space)
            except Py4JError as error:
                # A sink that starts at the same time may have created it.
                if f"{_ICEBERG}AlreadyExistsException" in cause_classes(error):
                    return
                is_broken = not _NO_ANSWER.isdisjoint(cause_classes(error))
                if attempt == _ATTEMPTS_MAX or not is_broken:
                    raise
            else:
                return

    def _parts(self, parts: Sequence[str]) -> Any:
        gateway: Any = self._spark.sparkContext._gateway  # noqa: SLF001
        array = gateway.new_array(gateway.jvm.java.lang.String, len(parts))
        for at, part in enumerate(parts):
            array[at] = part
        return array

    def _list(self) -> Any:
        jvm: Any = self._spark._jvm  # noqa: SLF001
        return jvm.java.util.ArrayList()

    # Each is looked up once: Py4J searches all jars for each part of a name.
    @cached_property
    def _identifiers(self) -> Any:
        return self.jvm.catalog.TableIdentifier

    @cached_property
    def _commits(self) -> Any:
        return self.jvm.catalog.TableCommit

    @cached_property
    def _build_from(self) -> Any:
        return self.jvm.TableMetadata.buildFrom


def _is_unanswered(classes: Sequence[str]) -> bool:
    return _ANSWERED in classes and classes[-1] != _ANSWERED

"""One connection to SQL Server through pyodbc and the Microsoft driver.

Every statement runs alone (autocommit): the publisher never leaves a transaction open on the
source, idle or not. Errors of the driver become typed ones by SQLSTATE and native number.
"""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import structlog

from tailrace_publisher.errors import SourceError
from tailrace_publisher.options.source import SourceConfig
from tailrace_publisher.source.connection.converters import (
    NATIONAL_TEXT,
    add_converters,
    utf16_text,
)
from tailrace_publisher.source.connection.driver import find_driver, load_pyodbc
from tailrace_publisher.source.connection.quoting import connection_string
from tailrace_publisher.source.connection.reachable import check_reachable
from tailrace_publisher.source.connection.server_errors import source_error
from tailrace_service.closing import Closing

# pyodbc writes "(<native number>) (<ODBC function>)" after the first diagnostic record and
# "(<native number>)" after each further one; the number is not available otherwise. Numbers in
# parentheses within a message (a length, a column) are not followed by a record or the end.
_NATIVE_NUMBER: Final = re.compile(r"\((-?\d+)\)(?= \(SQL|;?\s*\[\w{5}\] |;?\s*$)")


LONG_TEXT: Final = 1000
"""Characters from which a statement is stored at the server, if possible."""
_CANCEL_AFTER_S: Final = 0.2
PROCEDURES_MAX: Final = 200
"""Limit of stored statements; only frequent changes of capture instances exceed it."""
# See: the page of DECLARE @local_variable
_DECLARED: Final = re.compile(r"DECLARE ((?:@\w+ \w+(?:\(\w+\))? = \?(?:, )?)+); ")
_VARIABLE: Final = re.compile(r"@\w+")

_log = structlog.get_logger(__name__)


class OdbcConnection(Closing):
    """A connection for one thread at a time.

    Attributes:
        queries: number of statements sent so far.
    """

    def __init__(self, config: SourceConfig) -> None:
        """Connect.

        Raises:
            ConfigError: no driver, or an unreadable password file.
            SourceError: the typed reason why there is no connection.
        """
        self.queries = 0
        self._config = config
        self._cursor: Any = None
        self._running_since: float | None = None
        self._closing = threading.Lock()
        self._procedures: dict[str, str | None] = {}
        pyodbc = load_pyodbc()
        self._errors: tuple[type[Exception], ...] = (pyodbc.Error,)
        text = connection_string(config, find_driver(config.driver))
        check_reachable(config)
        try:
            self._odbc: Any = pyodbc.connect(text, autocommit=True, timeout=config.login_timeout_s)
        except pyodbc.Error as error:
            raise self._translate(error, "connecting") from None
        self._odbc.timeout = config.query_timeout_s
        add_converters(self._odbc)

    def close(self) -> None:
        """Close the connection; a broken one may be closed too."""
        with self._closing, contextlib.suppress(*self._errors):
            self._odbc.close()

    def cancel(self) -> None:
        """Cancel the running statement, if any; called by another thread.

        A statement has some time to reach the server first. SQLCancel that meets it on its way
        there waits for its end instead (observed with version 18 of the driver).
        """
        since = self._running_since
        if since is None:
            return
        threading.Event().wait(since + _CANCEL_AFTER_S - time.monotonic())
        with self._closing:
            if self._running_since == since and self._cursor is not None:
                with contextlib.suppress(*self._errors):
                    self._cursor.cancel()

    def query(self, sql: str, *parameters: Any) -> list[Any]:
        """Return the rows of a statement's only result set.

        Args:
            sql: the statement; ``?`` for each parameter.
            parameters: bytes are bound as varbinary, str as nvarchar, int as int or bigint.

        Raises:
            SourceError: the typed reason of the failure.
        """
        sets = self.query_sets(sql, *parameters)
        return sets[0] if sets else []

    def query_sets(self, sql: str, *parameters: Any) -> list[list[Any]]:
        """Return the rows of every result set of a batch.

        Raises:
            SourceError: the typed reason of the failure.
        """
        return self._read(sql, parameters, _all_rows)

    def query_together(self, statements: Sequence[str], *parameters: Any) -> list[list[Any]]:
        """Return the rows of each of several statements, from one round trip.

        Long ones are stored at the server one by one, so a change of one keeps the others.

        Args:
            statements: each has one result set, and first declares its parameters. They are the
                same for all.

        Raises:
            ValueError: a statement does not declare the parameters of the first.
            SourceError: the typed reason of the failure.
        """
        # See: EXECUTE, parameters by position; CREATE PROCEDURE, temporary procedures
        if len(statements) == 1:
            return self.query_sets(statements[0], *parameters)
        heads = [_DECLARED.match(sql) for sql in statements]
        head = heads[0]
        if head is None or any(h is None or h[0] != head[0] for h in heads):
            raise ValueError("statements that go together declare the same parameters")
        variables = ", ".join(_VARIABLE.findall(head[1]))
        batch = [
            sql[head.end() :] if name is None else f"EXEC {name} {variables}"
            for sql, name in ((sql, self._kept_name(sql)) for sql in statements)
        ]
        return self.query_sets(f"DECLARE {head[1]}; {'; '.join(batch)}", *parameters)

    def query_within(
        self, sql: str, *parameters: Any, size_of: Callable[[Any], int], at_most: int
    ) -> tuple[list[list[Any]], bool]:
        """Return the rows of a batch's result sets, up to a number of bytes.

        The row that reaches the limit is the last one: later rows are not read.

        Args:
            sql: the batch; ``?`` for each parameter.
            size_of: returns the bytes of a row.
            at_most: bytes of all rows together.

        Returns:
            The result sets, and whether more rows may follow.

        Raises:
            SourceError: the typed reason of the failure.
        """
        rest, is_cut = at_most, False

        def fetch(cursor: Any) -> list[Any]:
            nonlocal rest, is_cut
            rows: list[Any] = []
            for row in cursor:
                rows.append(row)
                rest -= size_of(row)
                if rest <= 0:
                    is_cut = True
                    break
            return rows

        def begin() -> None:
            nonlocal rest, is_cut
            rest, is_cut = at_most, False

        sets = self._read(sql, parameters, fetch, begin=begin, is_done=lambda: is_cut)
        return sets, is_cut

    def _read(
        self,
        sql: str,
        parameters: tuple[Any, ...],
        fetch: Callable[[Any], list[Any]],
        *,
        begin: Callable[[], None] = lambda: None,
        is_done: Callable[[], bool] = lambda: False,
    ) -> list[list[Any]]:
        """Read result sets with ``fetch``, until there are no more or ``is_done``."""
        try:
            return self._run(sql, parameters, fetch, is_done)
        except UnicodeDecodeError:
            # SQL Server stores any UTF-16 code units, including halves of a pair, which the
            # driver's decoder refuses. A second read with a decoder that accepts them lets the
            # encoder name table, column and row. It costs a call per value, so pages rarely use it.
            for sql_type in NATIONAL_TEXT:
                self._odbc.add_output_converter(sql_type, utf16_text)
            begin()
            try:
                return self._run(sql, parameters, fetch, is_done)
            finally:
                for sql_type in NATIONAL_TEXT:
                    self._odbc.remove_output_converter(sql_type)

    def _run(
        self,
        sql: str,
        parameters: tuple[Any, ...],
        fetch: Callable[[Any], list[Any]],
        is_done: Callable[[], bool],
    ) -> list[list[Any]]:
        self.queries += 1
        sets: list[list[Any]] = []
        self._running_since = time.monotonic()
        try:
            try:
                cursor = self._open_cursor()
                cursor.execute(self._kept_text(sql) if parameters else sql, parameters)
                while True:
                    if cursor.description:
                        sets.append(fetch(cursor))
                    if is_done() or not cursor.nextset():
                        break
            except BaseException:
                self._close_cursor()
                raise
            if is_done():
                self._close_cursor()
        except self._errors as error:
            raise self._translate(error, "querying") from error
        finally:
            self._running_since = None
        return sets

    def _open_cursor(self) -> Any:
        """Return the only cursor.

        The driver prepares a statement with parameters again each time, because pyodbc removes its
        parameters. The next statement frees the handle of the previous one. Closing the cursor
        would be a round trip of its own, as long as that of a short statement.
        """
        if self._cursor is None:
            self._cursor = self._odbc.cursor()
        return self._cursor

    def _close_cursor(self) -> None:
        """Close the cursor and drop the rest of its results."""
        with self._closing:
            cursor, self._cursor = self._cursor, None
            if cursor is not None:
                with contextlib.suppress(*self._errors):
                    cursor.close()

    def _kept_text(self, sql: str) -> str:
        """Return the text to send: the statement, or the call of its stored procedure."""
        name = self._kept_name(sql)
        if name is None:
            return sql
        head = _DECLARED.match(sql)
        count = 0 if head is None else head[1].count("@")
        return f"{{CALL {name}({', '.join('?' * count)})}}"

    def _kept_name(self, sql: str) -> str | None:
        """Return the procedure that stores a long statement; None if there is none.

        A statement that first declares its parameters can be stored at the server for this
        connection alone. It becomes a temporary procedure, which any login may create. From then on
        it costs some two hundred bytes.
        """
        if sql in self._procedures:
            return self._procedures[sql]
        head = _DECLARED.match(sql) if len(sql) >= LONG_TEXT else None
        if head is None or len(self._procedures) >= PROCEDURES_MAX:
            return None
        name: str | None = f"#tailrace_{len(self._procedures) + 1}"
        declared = head[1].replace(" = ?", "")
        try:
            self.queries += 1
            self._open_cursor().execute(
                f"CREATE PROCEDURE {name} {declared} AS {sql[head.end() :]}"
            )
        except self._errors as error:
            self._close_cursor()
            reason = self._translate(error, "querying")
            # Inferred: whether tempdb, where SNAPSHOT is not allowed, refuses it (3952) each time.
            if reason.retryable and reason.number != 3952:
                raise
            _log.info(
                "statement_not_stored", reason=str(reason), effect="its text is sent each time"
            )
            name = None
        self._procedures[sql] = name
        return name

    def _translate(self, error: Exception, doing: str) -> SourceError:
        sqlstate = str(error.args[0]) if error.args else ""
        text = str(error.args[-1]) if error.args else ""
        numbers = [int(number) for number in _NATIVE_NUMBER.findall(text)]
        return source_error(self._config, sqlstate, numbers, text, is_login=doing == "connecting")


def _all_rows(cursor: Any) -> list[Any]:
    rows: list[Any] = cursor.fetchall()
    return rows

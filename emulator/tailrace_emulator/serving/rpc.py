"""RPC requests: the prepared-statement procedures, and everything else by name.

sp_executesql, sp_prepare, sp_execute, sp_prepexec, sp_prepexecrpc and sp_unprepare live here
because they are the protocol's, not the database's: their handles belong to the connection.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from tailrace_emulator import messages
from tailrace_emulator.messages.errors import SqlError, not_supported
from tailrace_emulator.serving.batch import BatchRunner
from tailrace_emulator.serving.invalid_values import check_parameters
from tailrace_emulator.serving.parameter_binding import ParameterBinding, table_parameter
from tailrace_emulator.serving.parameter_declarations import Declaration, parse_declarations
from tailrace_emulator.serving.server_cursors import Fetch, Opening, ServerCursors
from tailrace_emulator.serving.uncollated_texts import in_database_page
from tailrace_emulator.tsql.compile.user_types import resolved
from tailrace_emulator.values.results import Event, Parameter, ReturnStatus, ReturnValue
from tailrace_emulator.values.tds_types import sent_type
from tailrace_emulator.values.types import INT
from tailrace_emulator.wire.half_pairs import kept_value
from tailrace_emulator.wire.requests import ParameterStatus, ProcedureId, RpcCall, RpcParameter
from tailrace_emulator.wire.table_values import TableValue

HANDLES_MAX: Final = 100_000
"""A client that never unprepares must not fill our memory."""

TEXTS_MAX: Final = 128
TEXT_CHARACTERS_MAX: Final = 4096
"""Of a connection's texts that are known by what the client sent: drivers prepare the same one for
each execution, and finding it again costs as much as running a short statement."""


class Prepared:
    """A prepared text and its declared parameters; for sp_prepexecrpc a procedure's name."""

    __slots__ = ("binding", "is_procedure", "sql")

    def __init__(
        self,
        sql: str,
        declarations: tuple[Declaration, ...] = (),
        *,
        is_procedure: bool = False,
    ) -> None:
        self.sql = sql
        self.is_procedure = is_procedure
        self.binding = ParameterBinding(sql, declarations)


class _Arguments:
    """A call's parameters, by position or name."""

    __slots__ = ("_named", "parameters")

    def __init__(self, parameters: tuple[RpcParameter, ...]) -> None:
        self.parameters = parameters
        self._named = {p.name.casefold(): p for p in reversed(parameters) if p.name}

    def take(self, position: int, name: str) -> RpcParameter | None:
        if self._named:
            found = self._named.get(name)
            if found is not None:
                return found
        if position < len(self.parameters) and not self.parameters[position].name:
            return self.parameters[position]
        return None

    def text(self, position: int, name: str, procedure: str) -> str:
        parameter = self.take(position, name)
        if parameter is None or not isinstance(parameter.value, str):
            raise messages.error(214, name, "ntext/nchar/nvarchar", procedure=procedure)
        return parameter.value

    def integer(self, position: int, name: str) -> int | None:
        parameter = self.take(position, name)
        value = parameter.value if parameter is not None else None
        return value if isinstance(value, int) else None


Called = tuple[Iterator[Event], int]
"""A call's events, and how many parameters come before those of its text or procedure."""


class Procedures:
    """The RPC procedures of one connection, with its handles."""

    def __init__(self, runner: BatchRunner) -> None:
        self._runner = runner
        self._prepared: dict[int, Prepared] = {}
        self._texts: dict[tuple[str, str | None, str], Prepared] = {}
        self._next_handle = 1
        self._cursors = ServerCursors()
        self._by_id: dict[int, Callable[[_Arguments], Called]] = {
            ProcedureId.EXECUTESQL: self._executesql,
            ProcedureId.PREPARE: self._prepare,
            ProcedureId.EXECUTE: self._execute,
            ProcedureId.PREPEXEC: self._prepexec,
            ProcedureId.PREPEXECRPC: self._prepexecrpc,
            ProcedureId.UNPREPARE: self._unprepare,
            ProcedureId.CURSOR_OPEN: self._cursor_open,
            ProcedureId.CURSOR_PREPARE: self._cursor_prepare,
            ProcedureId.CURSOR_EXECUTE: self._cursor_execute,
            ProcedureId.CURSOR_PREPEXEC: self._cursor_prepexec,
            ProcedureId.CURSOR_UNPREPARE: self._unprepare,
            ProcedureId.CURSOR_FETCH: self._cursor_fetch,
            ProcedureId.CURSOR_OPTION: self._cursor_option,
            ProcedureId.CURSOR_CLOSE: self._cursor_close,
        }
        self._by_name: dict[str, Callable[[_Arguments], Called]] = {
            "sp_executesql": self._executesql,
            "sp_prepare": self._prepare,
            "sp_execute": self._execute,
            "sp_prepexec": self._prepexec,
            "sp_prepexecrpc": self._prepexecrpc,
            "sp_unprepare": self._unprepare,
            "sp_cursoropen": self._cursor_open,
            "sp_cursorprepare": self._cursor_prepare,
            "sp_cursorexecute": self._cursor_execute,
            "sp_cursorprepexec": self._cursor_prepexec,
            "sp_cursorunprepare": self._unprepare,
            "sp_cursorfetch": self._cursor_fetch,
            "sp_cursoroption": self._cursor_option,
            "sp_cursorclose": self._cursor_close,
        }

    def call(self, call: RpcCall) -> Called:
        """The events of a call.

        Raises:
            SqlError: the call cannot begin; 8023 or 8043 for a value that its type cannot hold.
        """
        check_parameters(call.parameters)
        of_database = self._runner.context.database.collation
        parameters = tuple(in_database_page(p, of_database) for p in call.parameters)
        arguments = _Arguments(parameters)
        if isinstance(call.procedure, int):
            by_id = self._by_id.get(call.procedure)
            if by_id is None:
                raise not_supported(
                    f"positioned changes by sp_cursor (procedure id {call.procedure})"
                )
            return by_id(arguments)
        return self._run(Prepared(call.procedure, is_procedure=True), parameters)

    def _executesql(self, arguments: _Arguments) -> Called:
        sql = arguments.text(0, "@statement", "sp_executesql")
        if len(arguments.parameters) < 2:
            return self._run(Prepared(sql, ()), ())
        declared = arguments.text(1, "@params", "sp_executesql")
        return self._run(self._text(sql, declared), arguments.parameters, skipped=2)

    def _prepare(self, arguments: _Arguments) -> Called:
        handle = self._keep(self._prepared_text(arguments))
        value = _handle_value(arguments, handle)
        return iter((value, ReturnStatus(0))), 0

    def _prepexec(self, arguments: _Arguments) -> Called:
        return self._prepare_and_run(self._prepared_text(arguments), arguments, skipped=3)

    def _prepexecrpc(self, arguments: _Arguments) -> Called:
        name = arguments.text(1, "@rpccall", "sp_prepexecrpc")
        return self._prepare_and_run(Prepared(name, is_procedure=True), arguments, skipped=2)

    def _prepare_and_run(self, prepared: Prepared, arguments: _Arguments, skipped: int) -> Called:
        old = arguments.integer(0, "@handle")
        if old is not None:
            self._prepared.pop(old, None)  # a driver re-prepares by passing the handle in
        handle = self._keep(prepared)
        events, before = self._run(prepared, arguments.parameters, skipped)
        return _then(events, _handle_value(arguments, handle, -before)), before

    def _execute(self, arguments: _Arguments) -> Called:
        return self._run(self._find(arguments, "sp_execute"), arguments.parameters, skipped=1)

    def _unprepare(self, arguments: _Arguments) -> Called:
        self._find(arguments, "sp_unprepare")
        self._prepared.pop(arguments.integer(0, "@handle") or 0, None)
        return iter((ReturnStatus(0),)), 0

    # Server cursors -----------------------------------------------------------------------------

    def _cursor_open(self, arguments: _Arguments) -> Called:
        sql = arguments.text(1, "@stmt", "sp_cursoropen")
        opening = _opening(arguments, (0, 2, 3, 4))
        given = arguments.parameters[5:]
        declared = given[0].value if given else None
        declarations = self._declared(declared) if isinstance(declared, str) else ()
        events, _ = self._run(Prepared(sql, declarations), given[1:])
        return self._opened(events, opening), 0

    def _cursor_prepare(self, arguments: _Arguments) -> Called:
        return self._prepare(arguments)

    def _cursor_execute(self, arguments: _Arguments) -> Called:
        prepared = self._find(arguments, "sp_cursorexecute")
        opening = _opening(arguments, (1, 2, 3, 4))
        events, _ = self._run(prepared, arguments.parameters[5:])
        return self._opened(events, opening), 0

    def _cursor_prepexec(self, arguments: _Arguments) -> Called:
        old = arguments.integer(0, "@handle")
        if old is not None:
            self._prepared.pop(old, None)
        declared = arguments.parameters[2].value if len(arguments.parameters) > 2 else None
        declarations = self._declared(declared) if isinstance(declared, str) else ()
        prepared = Prepared(arguments.text(3, "@stmt", "sp_cursorprepexec"), declarations)
        opening = _opening(arguments, (1, 4, 5, 6))
        events, _ = self._run(prepared, arguments.parameters[7:])
        value = _handle_value(arguments, self._keep(prepared))
        return self._opened(_before_outputs(value, events), opening), 0

    def _opened(self, events: Iterator[Event], opening: Opening) -> Iterator[Event]:
        """A cursor over the events' rows, which it keeps as values."""
        context = self._runner.context
        before, context.takes_encoded = context.takes_encoded, False
        try:
            yield from self._cursors.open(events, opening)
        finally:
            context.takes_encoded = before

    def _cursor_fetch(self, arguments: _Arguments) -> Called:
        handle = arguments.integer(0, "@cursor")
        kind = arguments.integer(1, "@fetchtype") or Fetch.NEXT
        number = arguments.integer(2, "@rownum") or 0
        count = arguments.integer(3, "@nrows")
        return self._cursors.fetch(handle, kind, number, 20 if count is None else count), 0

    def _cursor_option(self, arguments: _Arguments) -> Called:
        return self._cursors.option(arguments.integer(0, "@cursor")), 0

    def _cursor_close(self, arguments: _Arguments) -> Called:
        return self._cursors.close(arguments.integer(0, "@cursor")), 0

    def _prepared_text(self, arguments: _Arguments) -> Prepared:
        declared = arguments.take(1, "@params")
        text = declared.value if declared is not None else None
        sql = arguments.text(2, "@stmt", "sp_prepare")
        return self._text(sql, text if isinstance(text, str) else None)

    def _text(self, sql: str, declared: str | None) -> Prepared:
        """A text with its declared parameters."""
        key = (sql, declared, self._runner.context.database.collation)
        found = self._texts.get(key)
        if found is None:
            found = Prepared(sql, () if declared is None else self._declared(declared))
            if len(sql) + len(declared or "") <= TEXT_CHARACTERS_MAX:
                if len(self._texts) >= TEXTS_MAX:
                    self._texts.clear()
                self._texts[key] = found
        return found

    def _declared(self, text: str) -> tuple[Declaration, ...]:
        """Declared parameters; their text is in the collation of the database."""
        name = self._runner.context.database.collation
        database = self._runner.context.database
        return tuple(
            replace(d, type=resolved(database, d.type, number).collated(name))
            for number, d in enumerate(parse_declarations(text), 1)
        )

    def _find(self, arguments: _Arguments, procedure: str) -> Prepared:
        handle = arguments.integer(0, "@handle")
        prepared = self._prepared.get(handle) if handle is not None else None
        if prepared is None:
            raise messages.error(8179, handle, procedure=procedure)
        return prepared

    def _keep(self, prepared: Prepared) -> int:
        if len(self._prepared) >= HANDLES_MAX:
            self._prepared.pop(next(iter(self._prepared)))
        handle = self._next_handle
        self._next_handle += 1
        self._prepared[handle] = prepared
        return handle

    def _run(self, prepared: Prepared, given: tuple[RpcParameter, ...], skipped: int = 0) -> Called:
        if prepared.is_procedure:
            by_name = self._by_name.get(_bare_name(prepared.sql))
            if by_name is not None:
                events, inner = by_name(_Arguments(given[skipped:]))
                return events, inner + skipped
            parameters = [_parameter(p) for p in given[skipped:]]
            return self._runner.call(prepared.sql, parameters), skipped
        return self._runner.run(prepared.sql, prepared.binding.bind(given[skipped:])), skipped


def _handle_value(arguments: _Arguments, handle: int, position: int = 0) -> ReturnValue:
    sent = arguments.take(0, "@handle")
    return ReturnValue(sent.name if sent is not None else "", INT, handle, position)


def _before_outputs(value: Event, events: Iterator[Event]) -> Iterator[Event]:
    """An output value, then the events."""
    yield value
    yield from events


def _opening(arguments: _Arguments, places: tuple[int, int, int, int]) -> Opening:
    """Options of a cursor: cursor, scrollopt, ccopt and rowcount stand at these places."""
    given = arguments.parameters
    found = [given[place] if place < len(given) else None for place in places]
    numbers = [p.value if p is not None and isinstance(p.value, int) else 0 for p in found]
    names = tuple(p.name if p is not None and p.is_output else None for p in found)
    return Opening(
        numbers[1], numbers[2], numbers[3], (names[0], names[1], names[2], names[3]), places
    )


def _then(events: Iterator[Event], last: Event) -> Iterator[Event]:
    """The events and ``last``, which comes even when an error ends them: the text is prepared."""
    try:
        yield from events
    except SqlError:
        yield last
        raise
    yield last


def is_reset(call: RpcCall) -> bool:
    """Whether a call is what a pooled connection begins again with."""
    return isinstance(call.procedure, str) and _bare_name(call.procedure) == "sp_reset_connection"


def _bare_name(procedure: str) -> str:
    return procedure.rsplit(".", 1)[-1].strip().strip('[]"').casefold()


def _parameter(parameter: RpcParameter) -> Parameter:
    if isinstance(parameter.value, TableValue):
        return table_parameter(parameter.name, INT, parameter.value)
    sql_type = sent_type(parameter.type)
    is_default = bool(parameter.status & ParameterStatus.DEFAULT_VALUE)
    return Parameter(
        parameter.name,
        sql_type,
        kept_value(parameter.value),
        parameter.is_output,
        is_default=is_default,
    )

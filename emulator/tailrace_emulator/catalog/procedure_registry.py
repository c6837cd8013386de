"""How system procedures declare themselves: parameters as types, a body that yields events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tailrace_emulator.catalog.procedure_access import authorize_procedure
from tailrace_emulator.catalog.registry import Row, parse_columns
from tailrace_emulator.catalog.system_routines import ROUTINES, SystemRoutines
from tailrace_emulator.values.results import Event, ResultSet, ReturnStatus, Rows, StatementDone
from tailrace_emulator.values.types import SqlType, StorageValue

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext


class Required:
    """The default of a parameter that must be given."""

    def __repr__(self) -> str:
        """As shown in a signature."""
        return "REQUIRED"


REQUIRED: Final = Required()

ROWS_PER_EVENT: Final = 1000


@dataclass(frozen=True, slots=True)
class ProcedureParameter:
    """A parameter; ``name`` with its @. ``default`` is what it has when it is not given."""

    name: str
    type: SqlType
    default: StorageValue | Required = REQUIRED
    output: bool = False


Arguments = Mapping[str, StorageValue]
"""Every parameter's value, by name with the @ as declared."""

Body = Callable[["SessionContext", Arguments], Iterator[Event]]

Authorize = Callable[["SessionContext", str, str, Arguments], None]
"""(session, schema, name, arguments) -> raises SqlError when it is not for the session."""


@dataclass(frozen=True, slots=True)
class Procedure:
    """A system procedure.

    Attributes:
        schema: ``sys``, or another for what an extension adds.
        name: as SQL Server spells it.
        parameters: in the order of their positions.
        body: yields the events of a run, without the final return status.
        authorize: checks that the session may run it.
    """

    schema: str
    name: str
    parameters: tuple[ProcedureParameter, ...]
    body: Body
    authorize: Authorize = authorize_procedure

    def run(self, context: SessionContext, args: Arguments) -> Iterator[Event]:
        """Runs it; the last event is its return status.

        Args:
            context: the calling session; its database is where the procedure runs.
            args: a value for every parameter, converted to the parameter's type.

        Raises:
            SqlError: what the procedure reports; 229, 15247 when it is not for the caller.
        """
        self.authorize(context, self.schema, self.name, args)
        status = ReturnStatus(0)
        for event in self.body(context, args):
            if isinstance(event, ReturnStatus):
                status = event
            else:
                yield event
        yield status


class SystemProcedures:
    """Procedures that were declared together: the system's own, or those of an extension."""

    def __init__(
        self, routines: SystemRoutines, authorize: Authorize = authorize_procedure
    ) -> None:
        """Begin.

        Args:
            routines: those of schema sys become known among these.
            authorize: checks who may run them.
        """
        self._routines = routines
        self._authorize = authorize
        self.by_name: dict[str, Procedure] = {}
        """By casefolded name, those of schema sys, which are found from every database without it;
        by ``schema.name`` those of another."""

    def procedure(
        self,
        name: str,
        *parameters: ProcedureParameter,
        schema: str = "sys",
        in_msdb: bool = False,
    ) -> Callable[[Body], Body]:
        """Registers a function as the procedure ``schema.name``.

        Args:
            name: as SQL Server spells it.
            parameters: in the order of their positions.
            in_msdb: whether the catalog lists it among the objects of msdb.
        """
        key = name if schema == "sys" else f"{schema}.{name}"

        def register(body: Body) -> Body:
            self.by_name[key.casefold()] = Procedure(
                schema, name, parameters, body, self._authorize
            )
            if schema == "sys":
                self._routines.register(name, "P", in_msdb=in_msdb)
            return body

        return register


SYSTEM_PROCEDURES: Final = SystemProcedures(ROUTINES)
"""The system's own."""
PROCEDURES: Final = SYSTEM_PROCEDURES.by_name
procedure = SYSTEM_PROCEDURES.procedure


def result_set(columns: str, rows: Iterable[Row]) -> Iterator[Event]:
    """The events of one result set.

    Args:
        columns: declared as :func:`tailrace_emulator.catalog.registry.parse_columns` reads them.
    """
    yield ResultSet(parse_columns(columns))
    count = 0
    pending: list[Row] = []
    for row in rows:
        pending.append(row)
        if len(pending) == ROWS_PER_EVENT:
            count += len(pending)
            yield Rows(pending)
            pending = []
    if pending:
        count += len(pending)
        yield Rows(pending)
    yield StatementDone("select", count)


def text(value: StorageValue) -> str | None:
    """A string argument, or None."""
    return value if isinstance(value, str) else None


def integer(value: StorageValue) -> int | None:
    """An integer argument, or None."""
    return value if isinstance(value, int) else None


def flag(value: StorageValue) -> bool | None:
    """A bit argument, or None."""
    return None if value is None else bool(value)

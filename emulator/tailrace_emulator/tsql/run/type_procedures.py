"""sp_addtype and sp_droptype, which came before CREATE TYPE and DROP TYPE.

https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/sp-addtype-transact-sql
https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/sp-droptype-transact-sql
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

from tailrace_emulator import messages
from tailrace_emulator.catalog.procedure_registry import (
    Arguments,
    Procedure,
    ProcedureParameter,
    text,
)
from tailrace_emulator.catalog.system_routines import register_routine
from tailrace_emulator.tsql.compile.frames import Frame
from tailrace_emulator.tsql.definition.definition_access import authorize_statement
from tailrace_emulator.tsql.syntax.parser import parse_batch
from tailrace_emulator.values.types import SYSNAME, varchar

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext
    from tailrace_emulator.tsql.definition.ddl import Definer
    from tailrace_emulator.values.results import Event

_P = ProcedureParameter
_PARAMETERS: Final = {
    "sp_addtype": (
        _P("@typename", SYSNAME),
        _P("@phystype", SYSNAME),
        _P("@nulltype", varchar(8), None),
        _P("@owner", SYSNAME, None),
    ),
    "sp_droptype": (_P("@typename", SYSNAME),),
}
_NULLABLE: Final = {"null": " NULL", "not null": " NOT NULL", "nonull": " NOT NULL", "": ""}
for _name in _PARAMETERS:
    register_routine(_name, "P")


def type_procedure(definer: Definer, name: str) -> Procedure | None:
    """The procedure of that casefolded name, None when it is another one."""
    parameters = _PARAMETERS.get(name)
    if parameters is None:
        return None
    run = _add if name == "sp_addtype" else _drop
    return Procedure("sys", name, parameters, partial(run, definer), _anybody)


def _anybody(_context: SessionContext, _schema: str, _name: str, _args: Arguments) -> None:
    """The statement that it stands for says who may."""


def _add(definer: Definer, context: SessionContext, args: Arguments) -> Iterator[Event]:
    """CREATE TYPE.

    Raises:
        SqlError: 15600 for @nulltype, and what CREATE TYPE raises.
    """
    yield from ()
    nullable = _NULLABLE.get((text(args["@nulltype"]) or "").strip().casefold())
    if nullable is None:
        raise messages.error(15600, "sp_addtype")
    name = _quoted(text(args["@typename"]) or "")
    owner = text(args["@owner"])
    place = f"{_quoted(owner)}.{name}" if owner else name
    physical = (text(args["@phystype"]) or "").strip()
    _run(definer, context, f"CREATE TYPE {place} FROM {physical}{nullable}")


def _drop(definer: Definer, context: SessionContext, args: Arguments) -> Iterator[Event]:
    """DROP TYPE."""
    yield from ()
    _run(definer, context, f"DROP TYPE {_quoted(text(args['@typename']) or '')}")


def _run(definer: Definer, context: SessionContext, sql: str) -> None:
    (statement,) = parse_batch(sql).statements
    authorize_statement(context, statement)
    definer.run(statement, Frame())


def _quoted(name: str) -> str:
    return f"[{name.replace(']', ']]')}]"

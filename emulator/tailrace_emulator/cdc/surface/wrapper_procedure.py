"""sys.sp_cdc_generate_wrapper_function as T-SQL calls it.

https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/sys-sp-cdc-generate-wrapper-function-transact-sql
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tailrace_emulator import messages
from tailrace_emulator.catalog.procedure_registry import (
    Arguments,
    ProcedureParameter,
    result_set,
    text,
)
from tailrace_emulator.cdc.capture_instance import capture_instances, find_instance, require_enabled
from tailrace_emulator.cdc.surface.declarations import procedure
from tailrace_emulator.cdc.surface.instance_access import may_read_instance
from tailrace_emulator.cdc.wrapper_functions import PROCEDURE, wrapper_functions
from tailrace_emulator.values.results import Event
from tailrace_emulator.values.types import BIT, MAX, SYSNAME, nvarchar

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext

_P = ProcedureParameter


@procedure(
    PROCEDURE,
    _P("@capture_instance", SYSNAME, None),
    _P("@closed_high_end_point", BIT, 1),
    _P("@column_list", nvarchar(MAX), None),
    _P("@update_flag_list", nvarchar(MAX), None),
)
def _generate_wrapper_function(context: SessionContext, args: Arguments) -> Iterator[Event]:
    database = context.database
    require_enabled(database, PROCEDURE)
    connection = context.store.connection
    name = (text(args["@capture_instance"]) or "").strip()
    columns, flags = text(args["@column_list"]), text(args["@update_flag_list"])
    if name:
        instance = find_instance(connection, database, name)
        if instance is None or not may_read_instance(context, database, instance):
            raise messages.error(22920, name, database.name, procedure=PROCEDURE)
        instances = [instance]
    elif columns or flags:
        raise messages.error(22921, procedure=PROCEDURE)
    else:
        instances = [
            instance
            for instance in capture_instances(connection, database)
            if may_read_instance(context, database, instance)
        ]
    found = [
        function
        for instance in instances
        for function in wrapper_functions(
            database,
            instance,
            closed_high_end_point=bool(args["@closed_high_end_point"]),
            column_list=columns,
            update_flag_list=flags,
        )
    ]
    yield from result_set(
        "function_name nvarchar(145), create_script nvarchar(max)",
        ((function.name, function.script) for function in found),
    )

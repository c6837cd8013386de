"""The server's messages: every number with its text, severity, state and what it aborts, once.

The numbers are in the files next to this one by range, as Microsoft's pages list them. The
catalogue is ``sys.messages``; FORMATMESSAGE and RAISERROR by number read it. The server builds
every error that it raises itself from it::

    raise messages.error(208, "dbo.t", line=3)

What is raised from many places has a function below that names it.

https://learn.microsoft.com/sql/relational-databases/errors-events/database-engine-events-and-errors
"""

from __future__ import annotations

from typing import Final

from tailrace_emulator.messages import (
    change_data_capture,
    compilation,
    databases,
    definitions,
    objects,
    procedures,
    queries,
    sequences_and_json,
    statements,
    transactions,
    xml_parsing,
)
from tailrace_emulator.messages.absent_names import (
    GLOBALS,
    absent_function,
    absent_object,
    absent_procedure,
)
from tailrace_emulator.messages.catalogue import SystemMessage
from tailrace_emulator.messages.errors import Aborts, SqlError, not_supported

_KNOWN: Final = {
    message.number: message
    for area in (
        queries,
        statements,
        definitions,
        objects,
        transactions,
        databases,
        compilation,
        sequences_and_json,
        procedures,
        change_data_capture,
        xml_parsing,
    )
    for message in area.MESSAGES
}
CATALOGUE: Final[dict[int, SystemMessage]] = {number: _KNOWN[number] for number in sorted(_KNOWN)}
"""Every message that this server may send, by number, in order."""


def error(
    number: int,
    *arguments: object,
    line: int = 1,
    state: int | None = None,
    aborts: Aborts | None = None,
    procedure: str = "",
) -> SqlError:
    """The error of a number of the catalogue, to be raised.

    Args:
        arguments: the values for its text, in order.
        line: line within the batch, 1-based.
        state: where it is not the catalogue's.
        aborts: where it is not the catalogue's.
        procedure: name of the procedure that reports it.

    Raises:
        KeyError: no such number. TypeError: not the values that the text takes. Both are defects.
    """
    message = CATALOGUE[number]
    return SqlError(
        number,
        message.filled(arguments),
        severity=message.severity,
        state=message.state if state is None else state,
        procedure=procedure,
        line=line,
        aborts=message.aborts if aborts is None else aborts,
    )


def text(number: int, *arguments: object) -> str:
    """The text of a message with its values put in.

    Raises:
        KeyError, TypeError: as in ``error``.
    """
    return CATALOGUE[number].filled(arguments)


def dotted(name: tuple[str, ...]) -> str:
    """A name as error texts spell it."""
    return ".".join(name)


# Of statements ----------------------------------------------------------------------------------


def syntax(near: str, line: int) -> SqlError:
    """102."""
    return error(102, near, line=line)


def keyword_syntax(near: str, line: int) -> SqlError:
    """156."""
    return error(156, near, line=line)


def invalid_object(name: tuple[str, ...], line: int) -> SqlError:
    """208; 50900 for what SQL Server has and this server has not."""
    if absent_object(name):
        return not_supported(dotted(name))
    return error(208, dotted(name), line=line)


def invalid_column(name: str, line: int) -> SqlError:
    """207."""
    return error(207, name, line=line)


def ambiguous_column(name: str, line: int) -> SqlError:
    """209."""
    return error(209, name, line=line)


def unbound(name: tuple[str, ...], line: int) -> SqlError:
    """4104."""
    return error(4104, dotted(name), line=line)


def undeclared_variable(name: str, line: int = 1) -> SqlError:
    """137; 50900 for what SQL Server has and this server has not."""
    if name.casefold() in GLOBALS:
        return not_supported(name)
    return error(137, name, line=line)


def undeclared_table_variable(name: str, line: int = 1) -> SqlError:
    """1087."""
    return error(1087, name, line=line)


def not_a_function(name: tuple[str, ...], line: int) -> SqlError:
    """195 or 4121; 50900 for what SQL Server has and this server has not."""
    if absent_function(name):
        return not_supported(f"the function {dotted(name)}")
    if len(name) == 1:
        return error(195, name[0], "built-in function name", line=line)
    return error(4121, name[0], dotted(name), line=line)


def argument_count(name: str, count: int) -> SqlError:
    """174."""
    return error(174, name.lower(), count)


def operand_clash(left: str, right: str) -> SqlError:
    """206."""
    return error(206, left, right)


def invalid_operator_type(type_name: str, operation: str) -> SqlError:
    """8117."""
    return error(8117, type_name, operation)


def incompatible_types(left: str, right: str, operation: str) -> SqlError:
    """402."""
    return error(402, left, right, operation)


def implicit_conversion(source: str, target: str) -> SqlError:
    """257."""
    return error(257, source, target)


def explicit_conversion(source: str, target: str) -> SqlError:
    """529."""
    return error(529, source, target)


def not_boolean(near: str, line: int) -> SqlError:
    """4145."""
    return error(4145, near, line=line)


def conversion_failed(source: str, value: str, target: str) -> SqlError:
    """245."""
    return error(245, source, value, target)


def error_converting(source: str, target: str) -> SqlError:
    """8114."""
    return error(8114, source, target)


def date_conversion_failed(target: str = "") -> SqlError:
    """241; 295 of a text that is to become a smalldatetime."""
    if target == "smalldatetime":
        return error(295)
    return error(241)


def date_out_of_range(source: str, target: str) -> SqlError:
    """242."""
    return error(242, source, target)


def uniqueidentifier_conversion_failed() -> SqlError:
    """8169."""
    return error(8169)


def arithmetic_overflow(target: str) -> SqlError:
    """8115 of an expression."""
    return error(8115, "expression", target)


def numeric_overflow(source: str, target: str) -> SqlError:
    """8115 of a conversion."""
    return error(8115, source, target, state=8)


def value_overflow(target: str, value: int) -> SqlError:
    """220."""
    return error(220, target, value)


def text_overflow(source: str, value: str, target: str) -> SqlError:
    """248 for int; 244 for the smaller integers."""
    if target == "int":
        return error(248, source, value)
    return error(244, source, value, "INT1" if target == "tinyint" else "INT2")


def divide_by_zero() -> SqlError:
    """8134."""
    return error(8134)


def truncated(table: str, column: str, value: str) -> SqlError:
    """2628."""
    return error(2628, table, column, value)


def check_violated(
    statement: str, constraint: str, database: str, table: str, column: str | None
) -> SqlError:
    """547 of a CHECK constraint."""
    at = (", column '", column, "'") if column else ("", "", "")
    return error(547, statement, "CHECK", constraint, database, table, *at)


def nested_too_deeply() -> SqlError:
    """191: found while the text is read."""
    return error(191)


def stack_limit() -> SqlError:
    """8631: found while the statement is compiled."""
    return error(8631)


def expression_limit() -> SqlError:
    """8632."""
    return error(8632)


def too_many_columns() -> SqlError:
    """1056."""
    return error(1056, 4096)


def value_too_large() -> SqlError:
    """7119."""
    return error(7119)


def cancelled() -> SqlError:
    """3617: an attention ended the statement."""
    return error(3617)


def subquery_many_rows() -> SqlError:
    """512."""
    return error(512)


def ties_without_order() -> SqlError:
    """1062."""
    return error(1062)


def recursion_without_union_all(name: str) -> SqlError:
    """252."""
    return error(252, name)


def missing_procedure(name: str) -> SqlError:
    """2812; 50900 for what SQL Server has and this server has not."""
    if absent_procedure(name):
        return not_supported(f"the procedure {name}")
    return error(2812, name)


def already_exists(name: str, line: int = 1) -> SqlError:
    """2714."""
    return error(2714, name, line=line)


def cannot_drop(kind: str, name: str) -> SqlError:
    """3701."""
    return error(3701, "drop", kind, name)


def cannot_alter_database(name: str) -> SqlError:
    """5011, which does not say whether the database exists."""
    return error(5011, name)


# Of logins, users and permissions ---------------------------------------------------------------


def denied(permission: str, name: str, database: str, schema: str) -> SqlError:
    """229: a permission on an object."""
    return error(229, permission, name, database, schema)


def column_denied(permission: str, column: str, name: str, database: str, schema: str) -> SqlError:
    """230: a permission on a column."""
    return error(230, permission, column, name, database, schema)


def database_denied(permission: str, database: str) -> SqlError:
    """262: a permission on the database, such as CREATE TABLE."""
    return error(262, permission, database)


def server_denied(permission: str) -> SqlError:
    """300: a permission on the server."""
    return error(300, permission, "server", "master")


def not_allowed() -> SqlError:
    """15247."""
    return error(15247)


def cannot_find(kind: str, name: str) -> SqlError:
    """15151 of GRANT, DENY, REVOKE and others that look a thing up."""
    return error(15151, "find", kind, name)


def cannot(action: str, kind: str, name: str) -> SqlError:
    """15151: ``Cannot drop the user 'x', because ...``."""
    return error(15151, action, kind, name)


def no_object(name: str, state: int = 13) -> SqlError:
    """1088: ALTER TABLE, TRUNCATE TABLE and CREATE INDEX of what one may not alter."""
    return error(1088, name, state=state)


def no_schema(name: str) -> SqlError:
    """2760."""
    return error(2760, name)


def no_database_access(login: str, database: str) -> SqlError:
    """916: a login without a user in a database."""
    return error(916, login, database)


def cannot_impersonate_user(name: str) -> SqlError:
    """15517."""
    return error(15517, name)


def cannot_impersonate_login(name: str) -> SqlError:
    """15406."""
    return error(15406, name)


def user_exists(name: str) -> SqlError:
    """15023."""
    return error(15023, name)


def login_exists(name: str) -> SqlError:
    """15025."""
    return error(15025, name)


def invalid_login(name: str) -> SqlError:
    """15007."""
    return error(15007, name)


def weak_password() -> SqlError:
    """15118."""
    return error(15118)


def short_password() -> SqlError:
    """15116."""
    return error(15116)

"""What CREATE, ALTER, DROP and TRUNCATE need, and how SQL Server refuses each.

What may not be altered is refused as if it were not there: 1088, 3701, 15151. Only the right to
create is refused by its name (262).

https://learn.microsoft.com/sql/relational-databases/security/permissions-database-engine
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from tailrace_emulator import messages
from tailrace_emulator.messages import (
    cannot,
    database_denied,
    denied,
    no_object,
    no_schema,
    not_allowed,
)
from tailrace_emulator.messages.errors import not_supported
from tailrace_emulator.security.access import Securable, of_object, of_schema
from tailrace_emulator.tsql.compile.access import OWNER, SELF
from tailrace_emulator.tsql.compile.names import ObjectName, creation_name, resolve_name
from tailrace_emulator.tsql.compile.user_types import no_type
from tailrace_emulator.tsql.syntax.definition_statements import (
    AlterAdd,
    AlterColumn,
    AlterDatabase,
    AlterDrop,
    AlterMask,
    CreateDatabase,
    CreateIndex,
    CreateModule,
    CreateSchema,
    CreateSynonym,
    CreateTable,
    DropObject,
)
from tailrace_emulator.tsql.syntax.labels import Goto, Label
from tailrace_emulator.tsql.syntax.maintenance_statements import (
    AlterIndex,
    ConsoleCommand,
    CreateStatistics,
    DropStatistics,
    Kill,
    UpdateStatistics,
)
from tailrace_emulator.tsql.syntax.nodes import Name, TableName
from tailrace_emulator.tsql.syntax.partition_statements import AlterSwitch
from tailrace_emulator.tsql.syntax.security_statements import (
    AlterAuthorization,
    AlterPrincipal,
    AlterRole,
    CreatePrincipal,
    DropPrincipal,
    ExecuteAs,
    Permissions,
    Revert,
)
from tailrace_emulator.tsql.syntax.sequence_statements import CheckIdentity, DefineSequence
from tailrace_emulator.tsql.syntax.statements import (
    Block,
    CursorStatement,
    Declare,
    Delete,
    Execute,
    ExecuteString,
    If,
    Ignored,
    Insert,
    Jump,
    Merge,
    Print,
    QueryStatement,
    RaiseError,
    Return,
    SetIdentityInsert,
    SetOption,
    SetVariable,
    Statement,
    Throw,
    Transaction,
    Truncate,
    TryCatch,
    Update,
    Use,
    WaitFor,
    While,
)
from tailrace_emulator.tsql.syntax.switches import SetContextInfo, SwitchConstraints, SwitchTrigger
from tailrace_emulator.tsql.syntax.text_statements import ReadText, UpdateText, WriteText
from tailrace_emulator.tsql.syntax.type_statements import CreateType

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext
    from tailrace_emulator.storage.engine import Database
    from tailrace_emulator.tsql.compile.targets import Target

_TRUNCATE_STATE: Final = 7
_KINDS: Final = {"VIEW": "view", "PROCEDURE": "procedure", "FUNCTION": "function"}


def authorize_statement(context: SessionContext, statement: Statement) -> None:
    """Check that the session may run a statement that defines or alters something.

    What reads and changes rows, and what changes logins, users and permissions, makes its own
    checks. A kind of statement that is not known here is for those who may alter the database.

    Raises:
        SqlError: 262, 1088, 2760, 3701, 5011, 15151; 15517 and 50900 for EXECUTE AS; 916.
    """
    if isinstance(statement, CreateModule) and statement.execute_as is not None:
        _execute_as(context, statement.execute_as)
    if context.security.is_sysadmin:
        return
    kind = type(statement)
    if kind in _CHECKED_ELSEWHERE:
        return
    authorize = _AUTHORIZERS.get(kind)
    if authorize is not None:
        authorize(context, statement)
    elif not context.security.has(Securable(context.database), "ALTER"):
        raise not_allowed()


def authorize_new_table(context: SessionContext, where: ObjectName) -> None:
    """SELECT INTO needs what CREATE TABLE needs.

    Raises:
        SqlError: 262 or 2760 without the permission, 916 without access to the database.
    """
    if not context.security.is_sysadmin:
        _create_in_schema(context, where.database, where.schema, "CREATE TABLE")


def _execute_as(context: SessionContext, clause: str) -> None:
    """EXECUTE AS of a module: the user is there, and is one's own to become."""
    security = context.security
    if clause == OWNER:
        return
    if clause == SELF:
        if context.user != "dbo":
            raise not_supported("EXECUTE AS SELF in a module that somebody else than dbo creates")
        return
    depth = security.depth
    security.execute_as_user(context.database, clause)
    security.revert(depth)


def authorize_truncate(context: SessionContext, target: Target) -> None:
    """TRUNCATE TABLE needs ALTER on the table.

    Raises:
        SqlError: 1088 without that permission.
    """
    database: Database | None = getattr(target, "database", None)
    if database is None or context.security.is_sysadmin:
        return
    if not context.security.has(of_object(database, target.table), "ALTER"):
        raise no_object(target.table.name, _TRUNCATE_STATE)


def _create_database(context: SessionContext, _node: CreateDatabase) -> None:
    master = context.engine.databases["master"]
    if not context.security.has_on_server("CREATE ANY DATABASE") and not context.security.has(
        Securable(master), "CREATE DATABASE"
    ):
        raise database_denied("CREATE DATABASE", "master")


def _alter_database(context: SessionContext, node: AlterDatabase) -> None:
    name = node.name or context.database.name
    database = context.engine.databases.get(name.casefold())
    if database is None or not context.security.has(Securable(database), "ALTER"):
        raise messages.cannot_alter_database(name)


def _create_schema(context: SessionContext, _node: CreateSchema) -> None:
    if not context.security.has(Securable(context.database), "CREATE SCHEMA"):
        raise database_denied("CREATE SCHEMA", context.database.name)


def _create_in_schema(
    context: SessionContext, database: Database, schema: str, permission: str
) -> None:
    """CREATE x in the database and ALTER on the schema."""
    security = context.security
    security.user(database)
    if not security.has(Securable(database), permission):
        raise database_denied(permission, database.name)
    securable = of_schema(database, schema)
    if securable.major_id and not security.has(securable, "ALTER"):
        raise no_schema(schema)


def _create_table(context: SessionContext, node: CreateTable) -> None:
    if node.name[-1].startswith("#"):
        return
    where = creation_name(context, node.name, node.line)
    _create_in_schema(context, where.database, where.schema, "CREATE TABLE")
    constraints = [*node.constraints]
    for column in node.columns:
        constraints += column.constraints
    _check_references(context, constraints, node.line)


def _create_module(context: SessionContext, node: CreateModule) -> None:
    if node.kind == "TRIGGER":
        _alter_table(context, node.table, node.line)
        return
    if node.name[-1].startswith("#"):
        return  # everybody may make temporary procedures
    if node.mode != "CREATE":
        where = resolve_name(context, node.name, node.line)
        module = where.database.module(where.schema, where.name)
        if module is not None:
            if not context.security.has(of_object(where.database, module), "ALTER"):
                raise messages.invalid_object(node.name, node.line)
            return
    where = creation_name(context, node.name, node.line)
    _create_in_schema(context, where.database, where.schema, f"CREATE {node.kind}")


def _create_synonym(context: SessionContext, node: CreateSynonym) -> None:
    where = creation_name(context, node.name, node.line)
    _create_in_schema(context, where.database, where.schema, "CREATE SYNONYM")


def _create_type(context: SessionContext, node: CreateType) -> None:
    where = creation_name(context, node.name, node.line)
    _create_in_schema(context, where.database, where.schema, "CREATE TYPE")


def _define_sequence(context: SessionContext, node: DefineSequence) -> None:
    where = creation_name(context, node.name, node.line)
    security = context.security
    security.user(where.database)
    known = where.database.sequence(where.schema, where.name)
    if node.alter and known is not None:
        if not security.has(of_object(where.database, known), "ALTER"):
            raise no_object(messages.dotted(node.name))
        return
    schema = of_schema(where.database, where.schema)
    if schema.major_id and not security.has(schema, "CREATE SEQUENCE"):
        raise no_schema(where.schema)


def _alter_existing(context: SessionContext, node: Any) -> None:
    """A statement whose ``table`` must be there already."""
    _alter_table(context, node.table, node.line)


def _alter_table(context: SessionContext, name: Name, line: int) -> None:
    """ALTER on an existing table; one that is not there is for the statement to report."""
    if not name or name[-1].startswith("#"):
        return
    where = resolve_name(context, name, line)
    context.security.user(where.database)
    table = where.database.table(where.schema, where.name)
    if table is not None and not context.security.has(of_object(where.database, table), "ALTER"):
        raise no_object(messages.dotted(name))


def _alter(context: SessionContext, node: AlterAdd | AlterDrop | AlterColumn) -> None:
    _alter_table(context, node.table, node.line)
    if not isinstance(node, AlterAdd):
        return
    constraints = [*node.constraints]
    for column in node.columns:
        constraints += column.constraints
    _check_references(context, constraints, node.line)


def _alter_mask(context: SessionContext, node: AlterMask) -> None:
    """ALTER on the table, and ALTER ANY MASK."""
    _alter_table(context, node.table, node.line)
    if node.table[-1].startswith("#"):
        return
    where = resolve_name(context, node.table, node.line)
    if not context.security.has(Securable(where.database), "ALTER ANY MASK"):
        raise no_object(messages.dotted(node.table))


def _check_references(context: SessionContext, constraints: Any, line: int) -> None:
    """A foreign key needs REFERENCES on the table that it names."""
    for constraint in constraints:
        name: Name = getattr(constraint, "referenced", None) or ()
        if not name:
            continue
        where = resolve_name(context, name, line)
        table = where.database.table(where.schema, where.name)
        if table is None:
            continue
        securable = of_object(where.database, table)
        if not context.security.has(securable, "REFERENCES"):
            raise denied("REFERENCES", table.name, where.database.name, table.schema)


def _drop_statistics(context: SessionContext, node: DropStatistics) -> None:
    for name in node.names:
        _alter_table(context, name[:-1], node.line)


def _drop(context: SessionContext, node: DropObject) -> None:
    for name in node.names:
        _drop_one(context, node, name)


def _drop_one(context: SessionContext, node: DropObject, name: Name) -> None:
    security = context.security
    if node.kind == "DATABASE":
        database = context.engine.databases.get(name[-1].casefold())
        if database is not None and not (
            security.has_on_server("ALTER ANY DATABASE")
            or security.has(Securable(database), "CONTROL")
        ):
            raise messages.cannot_drop("database", name[-1])
        return
    if node.kind == "SCHEMA":
        securable = of_schema(context.database, name[-1])
        if securable.major_id and not security.has(securable, "CONTROL"):
            raise cannot("drop", "schema", name[-1])
        return
    if node.kind == "INDEX":
        _alter_table(context, node.table, node.line)
        return
    if name[-1].startswith("#"):
        return
    where = resolve_name(context, name, node.line)
    if node.kind == "TYPE":
        schema = of_schema(where.database, where.schema)
        if schema.major_id and not security.has(schema, "ALTER"):
            raise no_type(messages.dotted(name))
        return
    place = (where.schema, where.name)
    database = where.database
    found = database.table(*place) or database.module(*place) or database.sequence(*place)
    if found is None:
        return
    schema = of_schema(where.database, found.schema)
    if not (
        security.has(of_object(where.database, found), "CONTROL") or security.has(schema, "ALTER")
    ):
        kind = _KINDS.get(node.kind, node.kind.lower())
        raise messages.cannot_drop(kind, messages.dotted(name))


def _switch(context: SessionContext, node: AlterSwitch) -> None:
    _alter_table(context, node.source, node.line)
    _alter_table(context, node.target, node.line)


def _set_identity_insert(context: SessionContext, node: SetIdentityInsert) -> None:
    if isinstance(node.target, TableName):
        _alter_table(context, node.target.name, node.line)


_CHECKED_ELSEWHERE: Final = frozenset(
    {
        AlterAuthorization,
        AlterPrincipal,
        AlterRole,
        Block,
        CheckIdentity,
        ConsoleCommand,
        CreatePrincipal,
        CursorStatement,
        Declare,
        Delete,
        DropPrincipal,
        Execute,
        ExecuteAs,
        ExecuteString,
        Goto,
        If,
        Ignored,
        Insert,
        Jump,
        Kill,
        Label,
        Merge,
        Permissions,
        Print,
        QueryStatement,
        RaiseError,
        ReadText,
        Return,
        Revert,
        SetContextInfo,
        SetOption,
        SetVariable,
        Throw,
        Transaction,
        Truncate,
        TryCatch,
        Update,
        UpdateText,
        Use,
        WaitFor,
        While,
        WriteText,
    }
)

_AUTHORIZERS: Final[dict[type, Callable[[SessionContext, Any], None]]] = {
    CreateDatabase: _create_database,
    AlterDatabase: _alter_database,
    CreateSchema: _create_schema,
    CreateTable: _create_table,
    CreateModule: _create_module,
    CreateIndex: _alter_existing,
    AlterAdd: _alter,
    AlterDrop: _alter,
    AlterSwitch: _switch,
    SwitchConstraints: _alter_existing,
    CreateSynonym: _create_synonym,
    CreateType: _create_type,
    SetIdentityInsert: _set_identity_insert,
    SwitchTrigger: _alter_existing,
    AlterColumn: _alter,
    AlterMask: _alter_mask,
    AlterIndex: _alter_existing,
    CreateStatistics: _alter_existing,
    UpdateStatistics: _alter_existing,
    DropStatistics: _drop_statistics,
    DropObject: _drop,
    DefineSequence: _define_sequence,
}

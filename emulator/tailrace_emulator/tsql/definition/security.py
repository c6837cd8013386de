"""Runs the statements about logins, users, roles, permissions and impersonation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from tailrace_emulator import messages
from tailrace_emulator.catalog.objects import find_object
from tailrace_emulator.messages.errors import SqlError, not_supported
from tailrace_emulator.security.access import Securable, of_object, of_schema
from tailrace_emulator.security.database_principals import DatabasePrincipals
from tailrace_emulator.security.grants import Grant, run_grant
from tailrace_emulator.security.ownership import alter_authorization
from tailrace_emulator.security.permissions import (
    DATABASE,
    DATABASE_PRINCIPAL,
    KINDS,
    OBJECT,
    SERVER,
    SERVER_PRINCIPAL,
)
from tailrace_emulator.security.server_principals import ServerPrincipals
from tailrace_emulator.security.tokens import find_login, find_principal
from tailrace_emulator.tsql.compile.names import resolve_name
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
from tailrace_emulator.values.results import Event, Message
from tailrace_emulator.values.types import nvarchar

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext
    from tailrace_emulator.tsql.compile.frames import Frame
    from tailrace_emulator.tsql.definition.running import Runner
    from tailrace_emulator.tsql.syntax.nodes import Name

_ABSENT = frozenset({15151})


class SecurityRunner:
    """Security statements of one session."""

    def __init__(self, interpreter: Runner) -> None:
        self.interpreter = interpreter
        self.context: SessionContext = interpreter.context
        self.methods: dict[type, Callable[[Any, Frame], Iterator[Event]]] = {
            CreatePrincipal: self._create,
            AlterPrincipal: self._alter,
            DropPrincipal: self._drop,
            AlterRole: self._alter_role,
            AlterAuthorization: self._alter_authorization,
            Permissions: self._permissions,
            ExecuteAs: self._execute_as,
            Revert: self._revert,
        }

    @property
    def _server(self) -> ServerPrincipals:
        context = self.context
        return ServerPrincipals(context.engine, context.security, context.store)

    @property
    def _users(self) -> DatabasePrincipals:
        context = self.context
        return DatabasePrincipals(context.database, context.security, context.store)

    # Principals ---------------------------------------------------------------------------------

    def _create(self, node: CreatePrincipal, _: Frame) -> Iterator[Event]:
        yield from ()
        with self.context.store.ddl(()):
            if node.kind == "LOGIN":
                self._server.create_login(node.name, node.options)
            elif node.kind == "USER":
                self._users.create_user(
                    node.name, node.login, node.options, without_login=node.without_login
                )
            else:
                self._users.create_role(node.name, node.owner)

    def _alter(self, node: AlterPrincipal, _: Frame) -> Iterator[Event]:
        yield from ()
        with self.context.store.ddl(()):
            if node.kind == "LOGIN":
                self._server.alter_login(node.name, node.options)
            elif node.kind == "USER":
                self._users.alter_user(node.name, node.options)
            else:
                self._users.alter_role_name(node.name, node.options)

    def _drop(self, node: DropPrincipal, _: Frame) -> Iterator[Event]:
        yield from ()
        try:
            with self.context.store.ddl(()):
                if node.kind == "LOGIN":
                    self._server.drop_login(node.name)
                elif node.kind == "USER":
                    self._users.drop_user(node.name)
                else:
                    self._users.drop_role(node.name)
        except SqlError as error:
            exists = self._exists(node)
            if exists or not (node.if_exists and error.number in _ABSENT):
                raise

    def _exists(self, node: DropPrincipal) -> bool:
        if node.kind == "LOGIN":
            return find_login(self.context.engine, node.name) is not None
        return find_principal(self.context.database, node.name) is not None

    def _alter_role(self, node: AlterRole, _: Frame) -> Iterator[Event]:
        yield from ()
        with self.context.store.ddl(()):
            principals = self._server if node.server else self._users
            principals.alter_role(node.role, node.action, node.member)

    # Permissions --------------------------------------------------------------------------------

    def _permissions(self, node: Permissions, _: Frame) -> Iterator[Event]:
        securable, columns, kind = self._securable(node)
        grant = Grant(
            node.action,
            node.permissions,
            securable,
            columns,
            kind,
            node.principals,
            node.grant_option,
            node.cascade,
        )
        with self.context.store.ddl(()):
            notices = run_grant(self.context.security, self.context.store, grant)
        for number, text in notices:
            yield Message(number, text, 0, 1, "", node.line)

    def _securable(self, node: Permissions) -> tuple[Securable, dict[str, int], str]:
        """What a permission statement is about: securable, its columns, its kind.

        Raises:
            SqlError: 15151 when it is not there, 4610, 4621.
        """
        context = self.context
        database = context.database
        name = node.name[-1] if node.name else ""
        if node.securable_class in {"", "SERVER"}:
            return self._whole(node), {}, ""
        if node.securable_class == "DATABASE":
            if name.casefold() != database.name.casefold():
                raise messages.cannot_find("database", name)
            return Securable(database), {}, ""
        if node.securable_class == "SCHEMA":
            if database.schema_name(name) is None:
                raise messages.cannot_find("schema", name)
            return of_schema(database, name), {}, ""
        if node.securable_class in {"USER", "ROLE"}:
            principal = find_principal(database, name)
            if principal is None or (principal.type == "R") != (node.securable_class == "ROLE"):
                raise messages.cannot_find(node.securable_class.lower(), name)
            number = principal.principal_id
            return Securable(database, DATABASE_PRINCIPAL, number, name=name), {}, ""
        if node.securable_class == "LOGIN":
            login = find_login(context.engine, name)
            if login is None:
                raise messages.cannot_find("login", name)
            master = context.engine.databases["master"]
            return Securable(master, SERVER_PRINCIPAL, login.principal_id, name=name), {}, ""
        return self._object(node.name, node.line)

    def _whole(self, node: Permissions) -> Securable:
        """The database, or the server where a permission is one of the server's."""
        context = self.context
        master = context.engine.databases["master"]
        in_master = context.database is master
        name = node.permissions[0][0]
        if node.securable_class == "SERVER" or (
            name in KINDS[SERVER] and name not in KINDS[DATABASE]
        ):
            if not in_master:
                raise messages.error(4621)
            return Securable(master, SERVER)
        return Securable(context.database)

    def _object(self, name: Name, line: int) -> tuple[Securable, dict[str, int], str]:
        context = self.context
        where = resolve_name(context, name, line)
        if where.database is not context.database:
            raise messages.error(4610)
        table = where.database.table(where.schema, where.name)
        if table is not None:
            columns = {column.name.casefold(): column.column_id for column in table.columns}
            return of_object(where.database, table), columns, "table"
        module = where.database.module(where.schema, where.name)
        if module is not None:
            kinds = {"P": "procedure", "FN": "function"}
            return of_object(where.database, module), {}, kinds.get(module.type, "table")
        found = find_object(context, where.database, where.schema, where.name)
        if found is not None and (found.object_id < 0 or found.type == "SN"):
            kind = "synonyms" if found.type == "SN" else "system views"
            raise not_supported(f"permissions on {kind}")
        if found is not None:
            kind = "table" if found.type == "IF" else "procedure"
            securable = Securable(
                where.database, OBJECT, found.object_id, 0, found.schema, found.name
            )
            return securable, {}, kind
        raise messages.cannot_find("object", where.name)

    def _alter_authorization(self, node: AlterAuthorization, _: Frame) -> Iterator[Event]:
        yield from ()
        context = self.context
        with context.store.ddl(()):
            if node.securable_class == "OBJECT":
                securable, _columns, _kind = self._object(node.name, node.line)
            else:
                securable = Securable(context.database, name=node.name[-1])
            alter_authorization(
                context.security, context.store, node.securable_class, securable, node.owner
            )

    # Impersonation ------------------------------------------------------------------------------

    def _execute_as(self, node: ExecuteAs, frame: Frame) -> Iterator[Event]:
        yield from ()
        security = self.context.security
        if node.name is None:
            security.execute_as_caller()
            return
        name = str(self.interpreter.evaluate(node.name, frame, nvarchar(128)) or "")
        if node.kind == "USER":
            security.execute_as_user(self.context.database, name)
        else:
            security.execute_as_login(name)
            if security.user_or_none(self.context.database) is None:
                # A login without a user in the current database cannot stay in it.
                denied = messages.no_database_access(name, self.context.database.name)
                security.revert()
                raise denied

    def _revert(self, _node: Revert, frame: Frame) -> Iterator[Event]:
        yield from ()
        security = self.context.security
        if security.depth > frame.impersonations:
            security.revert()

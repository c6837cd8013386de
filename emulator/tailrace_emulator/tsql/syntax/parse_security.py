"""Grammar of logins, users, roles, permissions and EXECUTE AS."""

from __future__ import annotations

from typing import Final

from tailrace_emulator.messages.errors import not_supported
from tailrace_emulator.tsql.syntax import parse_expressions as expressions
from tailrace_emulator.tsql.syntax.grammar import statement
from tailrace_emulator.tsql.syntax.nodes import Name
from tailrace_emulator.tsql.syntax.parse_base import TokenCursor
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
from tailrace_emulator.tsql.syntax.statements import Statement
from tailrace_emulator.tsql.syntax.tokens import Kind

_FLAGS: Final = frozenset({"MUST_CHANGE", "UNLOCK", "HASHED"})
_CLASSES: Final = frozenset({"OBJECT", "SCHEMA", "DATABASE", "USER", "ROLE", "LOGIN", "SERVER"})


@statement("CREATE", "USER")
@statement("CREATE", "ROLE")
@statement("CREATE", "LOGIN")
def create_principal(cursor: TokenCursor) -> Statement:
    """CREATE USER, ROLE or LOGIN."""
    line = cursor.advance().line
    kind = cursor.advance().upper
    name = cursor.identifier()
    login, without_login, owner = None, False, None
    if kind == "LOGIN" and cursor.accept("FROM"):
        raise not_supported(f"CREATE LOGIN ... FROM {cursor.token.text.upper()}")
    if kind == "USER":
        if cursor.accept_any("FOR", "FROM"):
            if not cursor.accept("LOGIN"):
                raise not_supported(f"CREATE USER ... FOR {cursor.token.text.upper()}")
            login = cursor.identifier()
        without_login = cursor.accept("WITHOUT", "LOGIN")
    elif kind == "ROLE" and cursor.accept("AUTHORIZATION"):
        owner = cursor.identifier()
    options = _options(cursor) if cursor.accept("WITH") else {}
    return CreatePrincipal(kind, name, login, without_login, owner, options, line=line)


@statement("ALTER", "ROLE")
@statement("ALTER", "SERVER")
@statement("ALTER", "USER")
@statement("ALTER", "LOGIN")
@statement("ALTER", "AUTHORIZATION")
def alter_principal(cursor: TokenCursor) -> Statement:
    """ALTER [SERVER] ROLE, USER, LOGIN or AUTHORIZATION."""
    line = cursor.advance().line
    kind = cursor.advance().upper
    if kind == "AUTHORIZATION":
        return _authorization(cursor, line)
    server = kind == "SERVER"
    if server:
        if not cursor.accept("ROLE"):
            raise not_supported(f"ALTER SERVER {cursor.token.text.upper()}")
        kind = "ROLE"
    name = cursor.identifier()
    if kind == "ROLE":
        action = cursor.accept_any("ADD", "DROP")
        if action is not None:
            cursor.expect("MEMBER")
            return AlterRole(name, action, cursor.identifier(), server, line=line)
    elif kind == "LOGIN":
        switch = cursor.accept_any("ENABLE", "DISABLE")
        if switch is not None:
            return AlterPrincipal(kind, name, {switch: "ON"}, line=line)
    if server or not cursor.accept("WITH"):
        cursor.fail()
    return AlterPrincipal(kind, name, _options(cursor), line=line)


@statement("DROP", "USER")
@statement("DROP", "ROLE")
@statement("DROP", "LOGIN")
def drop_principal(cursor: TokenCursor) -> Statement:
    """DROP USER, ROLE or LOGIN."""
    line = cursor.advance().line
    kind = cursor.advance().upper
    if_exists = cursor.accept("IF", "EXISTS")
    return DropPrincipal(kind, cursor.identifier(), if_exists, line=line)


def _options(cursor: TokenCursor) -> dict[str, str]:
    """``NAME = value [FLAG] , ...``."""
    options: dict[str, str] = {}
    while True:
        if cursor.token.kind is not Kind.WORD:
            cursor.fail()
        name = cursor.advance().upper
        cursor.expect("=")
        token = cursor.token
        if token.kind in {Kind.END, Kind.OPERATOR}:
            cursor.fail()
        if name.endswith("PASSWORD") and token.kind is Kind.BINARY:
            raise not_supported("a hashed password (PASSWORD = 0x...)")
        options[name] = cursor.advance().text
        while cursor.token.upper in _FLAGS:
            options[cursor.advance().upper] = "ON"
        if cursor.token.upper == "OLD_PASSWORD":
            continue
        if not cursor.accept(","):
            return options


def _authorization(cursor: TokenCursor, line: int) -> Statement:
    """``ON [class::]name TO principal | SCHEMA OWNER``."""
    cursor.expect("ON")
    securable_class, name = _securable(cursor)
    cursor.expect("TO")
    if cursor.accept("SCHEMA", "OWNER"):
        return AlterAuthorization(securable_class, name, None, line=line)
    return AlterAuthorization(securable_class, name, cursor.identifier(), line=line)


def _securable(cursor: TokenCursor) -> tuple[str, Name]:
    """``[class::]name``."""
    if cursor.ahead().text == "::":
        found = cursor.token.upper
        if found not in _CLASSES:
            raise not_supported(f"permissions and owners of class {cursor.token.text.upper()}")
        cursor.position += 2
        return found, cursor.dotted_name()
    return "OBJECT", cursor.dotted_name()


# GRANT, DENY, REVOKE ----------------------------------------------------------------------------


@statement("GRANT")
@statement("DENY")
@statement("REVOKE")
def permission_statement(cursor: TokenCursor) -> Statement:
    """GRANT, DENY or REVOKE."""
    token = cursor.advance()
    action = token.upper
    grant_option = action == "REVOKE" and cursor.accept("GRANT", "OPTION", "FOR")
    permissions = [_permission(cursor)]
    while cursor.accept(","):
        permissions.append(_permission(cursor))
    securable_class: str = ""
    name: Name = ()
    if cursor.accept("ON"):
        securable_class, name = _securable(cursor)
        if cursor.at("("):
            named = cursor.name_list()
            permissions = [(permission, (*own, *named)) for permission, own in permissions]
    if not (cursor.accept("TO") or (action == "REVOKE" and cursor.accept("FROM"))):
        cursor.fail()
    principals = [_grantee(cursor)]
    while cursor.accept(","):
        principals.append(_grantee(cursor))
    if action == "GRANT" and cursor.accept("WITH"):
        cursor.expect("GRANT", "OPTION")
        grant_option = True
    cascade = action != "GRANT" and cursor.accept("CASCADE")
    if cursor.at("AS"):
        raise not_supported(f"{action} ... AS another grantor")
    return Permissions(
        action,
        tuple(permissions),
        securable_class,
        name,
        tuple(principals),
        grant_option,
        cascade,
        line=token.line,
    )


def _grantee(cursor: TokenCursor) -> str:
    """A principal; PUBLIC is a reserved word."""
    return cursor.advance().text if cursor.at("PUBLIC") else cursor.identifier()


def _permission(cursor: TokenCursor) -> tuple[str, tuple[str, ...]]:
    """``SELECT [(columns)]``, ``VIEW DATABASE STATE``, ``ALL [PRIVILEGES]``."""
    words: list[str] = []
    while cursor.token.kind is Kind.WORD and not cursor.at_any("ON", "TO", "FROM"):
        words.append(cursor.advance().upper)
    if not words:
        cursor.fail()
    columns = cursor.name_list() if cursor.at("(") else ()
    name = " ".join(words)
    if name == "ALL PRIVILEGES":
        name = "ALL"
    return {"EXEC": "EXECUTE"}.get(name, name), columns


# EXECUTE AS -------------------------------------------------------------------------------------


def execute_as(cursor: TokenCursor, line: int) -> Statement:
    """``EXECUTE AS USER = 'u'``, from AS on."""
    cursor.expect("AS")
    kind = cursor.advance().upper
    name = None
    if kind != "CALLER":
        cursor.expect("=")
        name = expressions.argument_value(cursor)
    if cursor.accept("WITH"):
        raise not_supported(f"EXECUTE AS ... WITH {cursor.token.text.upper()}")
    return ExecuteAs(kind, name, line=line)


@statement("REVERT")
def revert(cursor: TokenCursor) -> Statement:
    """REVERT."""
    line = cursor.advance().line
    if cursor.accept("WITH"):
        raise not_supported("REVERT WITH COOKIE")
    return Revert(line=line)

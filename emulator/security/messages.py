"""SQL Server's errors about logins, users and permissions, with its texts."""

from __future__ import annotations

from emulator.errors import SqlError


def denied(permission: str, name: str, database: str, schema: str) -> SqlError:
    """229: a permission on an object."""
    return SqlError(
        229,
        f"The {permission} permission was denied on the object '{name}', database '{database}',"
        f" schema '{schema}'.",
        severity=14,
        state=5,
        aborts="batch",
    )


def column_denied(permission: str, column: str, name: str, database: str, schema: str) -> SqlError:
    """230: a permission on a column."""
    return SqlError(
        230,
        f"The {permission} permission was denied on the column '{column}' of the object '{name}',"
        f" database '{database}', schema '{schema}'.",
        severity=14,
        aborts="batch",
    )


def database_denied(permission: str, database: str) -> SqlError:
    """262: a permission on the database, such as CREATE TABLE."""
    return SqlError(
        262,
        f"{permission} permission denied in database '{database}'.",
        severity=14,
        aborts="batch",
    )


def server_denied(permission: str) -> SqlError:
    """300: a permission on the server."""
    return SqlError(
        300,
        f"{permission} permission was denied on object 'server', database 'master'.",
        severity=14,
        aborts="batch",
    )


def not_allowed() -> SqlError:
    """15247."""
    return SqlError(15247, "User does not have permission to perform this action.")


def cannot_find(kind: str, name: str) -> SqlError:
    """15151 of GRANT, DENY, REVOKE and others that look a thing up."""
    return SqlError(
        15151,
        f"Cannot find the {kind} '{name}', because it does not exist or you do not have"
        " permission.",
    )


def cannot(action: str, kind: str, name: str) -> SqlError:
    """15151: ``Cannot drop the user 'x', because ...``."""
    return SqlError(
        15151,
        f"Cannot {action} the {kind} '{name}', because it does not exist or you do not have"
        " permission.",
    )


def no_object(name: str, state: int = 13) -> SqlError:
    """1088: ALTER TABLE, TRUNCATE TABLE and CREATE INDEX of what one may not alter."""
    return SqlError(
        1088,
        f'Cannot find the object "{name}" because it does not exist or you do not have'
        " permissions.",
        state=state,
    )


def no_schema(name: str) -> SqlError:
    """2760."""
    return SqlError(
        2760,
        f'The specified schema name "{name}" either does not exist or you do not have permission to'
        " use it.",
    )


def no_database_access(login: str, database: str) -> SqlError:
    """916: a login without a user in a database."""
    return SqlError(
        916,
        f'The server principal "{login}" is not able to access the database "{database}" under the'
        " current security context.",
        severity=14,
        state=2,
        aborts="batch",
    )


def cannot_impersonate_user(name: str) -> SqlError:
    """15517."""
    return SqlError(
        15517,
        f'Cannot execute as the database principal because the principal "{name}" does not exist,'
        " this type of principal cannot be impersonated, or you do not have permission.",
    )


def cannot_impersonate_login(name: str) -> SqlError:
    """15406."""
    return SqlError(
        15406,
        f'Cannot execute as the server principal because the principal "{name}" does not exist,'
        " this type of principal cannot be impersonated, or you do not have permission.",
    )


def user_exists(name: str) -> SqlError:
    """15023."""
    return SqlError(15023, f"User, group, or role '{name}' already exists in the current database.")


def login_exists(name: str) -> SqlError:
    """15025."""
    return SqlError(15025, f"The server principal '{name}' already exists.")


def invalid_login(name: str) -> SqlError:
    """15007."""
    return SqlError(15007, f"'{name}' is not a valid login or you do not have permission.")


def weak_password() -> SqlError:
    """15118."""
    return SqlError(
        15118,
        "Password validation failed. The password does not meet the operating system policy"
        " requirements because it is not complex enough.",
    )


def short_password() -> SqlError:
    """15116."""
    return SqlError(
        15116,
        "Password validation failed. The password does not meet the operating system policy"
        " requirements because it is too short.",
    )

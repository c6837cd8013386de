"""Quoting of identifiers, texts, and the values of a connection string."""

from __future__ import annotations

from tailrace_publisher.options.source import SourceConfig
from tailrace_schemas.topics.topic_names import TableName


def quote_name(name: str) -> str:
    """Return an identifier in brackets, as QUOTENAME writes it."""
    return f"[{name.replace(']', ']]')}]"


def quote_table(table: TableName) -> str:
    """Return schema and name of a table of the connection's database, in brackets."""
    return f"{quote_name(table.schema)}.{quote_name(table.table)}"


def quote_text(text: str) -> str:
    """Return a T-SQL national character literal, for names inside stable statements."""
    return "N'" + text.replace("'", "''") + "'"


def connection_string(config: SourceConfig, driver: str) -> str:
    """Return the ODBC connection string; every value is in braces, so none can end early."""
    parts = {
        "DRIVER": driver,
        "SERVER": f"tcp:{config.host},{config.port}",
        "DATABASE": config.database,
        **_login(config),
        "Encrypt": config.encrypt.value,
        "TrustServerCertificate": "yes" if config.trust_server_certificate else "no",
        "ApplicationIntent": config.application_intent.value,
        "APP": "tailrace publisher",
        # The driver must not reconnect silently: the database may be another one by then.
        "ConnectRetryCount": "0",
        **{keyword: value.get_secret_value() for keyword, value in config.odbc.items()},
    }
    return ";".join(f"{key}={{{value.replace('}', '}}')}}}" for key, value in parts.items())


def _login(config: SourceConfig) -> dict[str, str]:
    """Return user and password, if the way of logging in needs them."""
    found = {} if config.user is None else {"UID": config.user}
    if config.password is not None or config.password_file is not None:
        found["PWD"] = config.read_password()
    return found

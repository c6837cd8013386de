"""What the options of both programs share: sections, registry, selection of tables, error texts.

Publisher and sink read one file. They must not differ in what they call a typo, a secret or a
table, so this is part of the contract, like the names of topics.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Self
from urllib.parse import urlsplit

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)

from tailrace_schemas.topics.topic_names import TableName

# Options whose value is never repeated in a message, with everything below them.
_SECRET: Final = frozenset(
    {"password", "extra", "token", "client_key_password", "odbc", "salt", "headers"}
)
_WANTED: Final = {
    "model_type": "it is a section: write its options below it, each as name: value",
    "dict_type": "write what belongs to it below it, each as name: value",
    "list_type": "write a list, as in [one, two]",
}
"""By type of the problem, where pydantic speaks of Python."""

HttpCertificate = Annotated[
    Path | None,
    Field(
        description="Certificate (PEM, with its chain) that the HTTP endpoint shows; it then speaks"
        " TLS only. Read at a start; default none: plain HTTP."
    ),
]
"""An option of both daemons, as the next one."""
HttpKey = Annotated[
    Path | None,
    Field(
        description="Its key (PEM, without a password); default: in the file of the certificate."
    ),
]


class Section(BaseModel):
    """Unknown options are errors (a typo must not be silence); values do not change later."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class RegistryConfig(Section):
    """The schema registry with Confluent's REST API."""

    url: str = Field(pattern=r"^https?://", description="Base address, e.g. http://host:8081.")
    timeout_s: float = Field(
        default=10.0, ge=0.1, le=300.0, description="Seconds per request; 0.1 to 300, default 10."
    )
    user: str | None = Field(
        default=None,
        min_length=1,
        description="Name for HTTP basic authentication, or an API key; with password or"
        " password_file. Sent in clear text where url is http.",
    )
    password: SecretStr | None = Field(default=None, description="Its password. Never logged.")
    password_file: Path | None = Field(
        default=None,
        description="File whose first line is the password; read for every request, so a rotated"
        " one needs no restart.",
    )
    token: SecretStr | None = Field(
        default=None, description="Bearer token, instead of user and password. Never logged."
    )
    token_file: Path | None = Field(
        default=None,
        description="File whose first line is the token; read for every request, so whoever renews"
        " it there need not tell.",
    )
    ca_file: Path | None = Field(
        default=None,
        description="Authorities (PEM) that the registry's certificate is checked with; default:"
        " the system's.",
    )
    client_certificate: Path | None = Field(
        default=None, description="Certificate (PEM, with its chain) to come with (mutual TLS)."
    )
    client_key: Path | None = Field(
        default=None, description="Its key (PEM); default: in the file of the certificate."
    )
    client_key_password: SecretStr | None = Field(
        default=None, description="Password of the key, where it has one. Never logged."
    )

    @model_validator(mode="after")
    def _one_way_in(self) -> Self:
        passwords = [self.password, self.password_file].count(None)
        if self.user is not None and passwords != 1:
            raise ValueError("user needs exactly one of password and password_file")
        if self.user is None and passwords != 2:
            raise ValueError("password and password_file need user")
        tokens = [self.token, self.token_file].count(None)
        if tokens == 0 or (tokens == 1 and self.user is not None):
            raise ValueError("give one of user, token and token_file: a request has one of them")
        if self.client_certificate is None and (self.client_key or self.client_key_password):
            raise ValueError("client_key and client_key_password need client_certificate")
        if not self.url.startswith("https:") and (self.ca_file or self.client_certificate):
            raise ValueError("ca_file and client_certificate need an https url")
        if "@" in urlsplit(self.url).netloc:  # the url is told in messages and logs
            raise ValueError("url has a user or password in it: put them into user and password")
        return self


class TableSelection(Section):
    """Tables that match include and do not match exclude."""

    include: list[str] = Field(
        default_factory=lambda: [r".*"],
        description="Regular expressions on schema.table, whole name, case-insensitive; default"
        " every table.",
    )
    exclude: list[str] = Field(
        default_factory=list, description="The same; takes precedence over include."
    )

    @field_validator("include", "exclude")
    @classmethod
    def _compiles(cls, patterns: list[str]) -> list[str]:
        check_patterns(patterns)
        return patterns

    def selects(self, table: TableName) -> bool:
        """Whether the table matches."""
        name = f"{table.schema}.{table.table}"
        return matches(self.include, name) and not matches(self.exclude, name)


class SecretUnreadable(ValueError):
    """The file of a secret cannot be read; names option and file."""


def read_secret(option: str, file: Path) -> str:
    """The first line of the file of a secret, without the blanks around it.

    Args:
        option: path of the option that names the file, for the message.
        file: the file.

    Raises:
        SecretUnreadable: it cannot be read, or is not text.
    """
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise SecretUnreadable(f"{option} {file}: it is not text") from error
    except OSError as error:
        raise SecretUnreadable(f"{option} {file}: {error.strerror}; make it readable") from error
    return lines[0].strip() if lines else ""


def read_extra(extra: Mapping[str, SecretStr], files: Mapping[str, Path]) -> dict[str, str]:
    """Further Kafka options as a client takes them: given ones, and those out of files.

    Raises:
        SecretUnreadable: a file cannot be read.
    """
    given = {name: value.get_secret_value() for name, value in extra.items()}
    return given | {
        name: read_secret(f"kafka.extra_files.{name}", file) for name, file in files.items()
    }


def given_once(extra: Mapping[str, SecretStr], files: Mapping[str, Path]) -> None:
    """Check that no option is given both as it is and in a file.

    Raises:
        ValueError: names those that are.
    """
    both = sorted(extra.keys() & files.keys())
    if both:
        raise ValueError(f"give {', '.join(both)} in one of extra and extra_files")


def leave_alone(extra: Iterable[str], taken: Iterable[str], why: str) -> None:
    """Check that further Kafka options leave alone what a program sets itself.

    Args:
        extra: option names.
        taken: names that may not be given.
        why: the end of the message: what rests on them.

    Raises:
        ValueError: names the options to remove.
    """
    both = sorted(set(extra) & set(taken))
    if both:
        raise ValueError(f"remove {', '.join(both)}: {why}")


def problems(error: ValidationError) -> list[str]:
    """One sentence per wrong option: its path, its value unless it is secret, and what is right."""
    return [_problem(detail) for detail in error.errors()]


def check_patterns(patterns: Iterable[str]) -> None:
    """Check that texts are regular expressions.

    Raises:
        ValueError: names the first that is none.
    """
    for pattern in patterns:
        try:
            re.compile(pattern)
        except re.error as error:
            raise ValueError(f"{pattern!r} is not a regular expression: {error}") from error


def matches(patterns: Iterable[str], name: str) -> bool:
    """Whether one of the patterns matches a whole name, in any case of its letters.

    A dot stands for any character, also for the end of a line, which a name may have.
    """
    return any(re.fullmatch(pattern, name, re.IGNORECASE | re.DOTALL) for pattern in patterns)


def _problem(detail: Any) -> str:
    path = [str(part) for part in detail["loc"]]
    option = ".".join(path) or "options"
    message = str(detail["msg"]).removeprefix("Value error, ")
    if detail["type"] == "missing":
        return f"{option} is missing: set it"
    if detail["type"] == "extra_forbidden":
        return f"{option} is not an option: check its spelling"
    value = detail.get("input")
    message = _WANTED.get(detail["type"], message)
    if isinstance(value, dict | list) or _SECRET.intersection(path):
        return f"{option}: {message}"
    return f"{option} = {value!r}: {message}"

"""Options of S3 and stores with its interface, as each library that opens a lake wants them.

Hadoop writes the lake; deltalake, pyarrow, Polars, DuckDB and pyiceberg read it. All get the same
values from here, so a lake that one of them opens is not closed to another.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Final, Self

from pydantic import Field, SecretStr, model_validator

from tailrace_sink.options.login_section import LoginSection

HADOOP_SCHEME: Final = "s3a://"
_SCHEME: Final = "s3://"
_SECRETS: Final = ("access_key", "secret_key", "session_token")
_DEFAULT_REGION: Final = "us-east-1"
"""What stores other than AWS sign with without another region."""
_ANSWER_LIMIT: Final = "60s"
"""How long a request waits for the next byte of its answer before Hadoop sends it again. Hadoop's
default of 200 s keeps a cut waiting that long for one lost connection."""
_AUTH: Final = "org.apache.hadoop.fs.s3a"
_CHAIN: Final = "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider"
"""AWS's own: environment, web identity, container, instance."""
_GIVEN: Final = ",".join(
    (
        f"{_AUTH}.TemporaryAWSCredentialsProvider",
        f"{_AUTH}.SimpleAWSCredentialsProvider",
        _CHAIN,
    )
)
_ROLE: Final = f"{_AUTH}.auth.AssumedRoleCredentialProvider"


def hadoop_address(address: str) -> str:
    """Return an address with the scheme under which Hadoop knows S3; others are unchanged."""
    if address.startswith(_SCHEME):
        return HADOOP_SCHEME + address.removeprefix(_SCHEME)
    return address


def s3_address(address: str) -> str:
    """Return an address with the scheme under which all but Hadoop know S3."""
    if address.startswith(HADOOP_SCHEME):
        return _SCHEME + address.removeprefix(HADOOP_SCHEME)
    return address


def is_s3(address: str) -> bool:
    """Whether an address is in S3 or in a store with its interface."""
    return address.startswith((HADOOP_SCHEME, _SCHEME))


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


class S3Options(LoginSection):
    """Access to S3, or to a store with its interface, for a lake at s3:// or s3a://."""

    at: ClassVar[str] = "s3"

    endpoint: str | None = Field(
        default=None,
        pattern=r"^https?://[^/]+/?$",
        description="Address of a store other than AWS, e.g. http://minio:9000; default AWS.",
    )
    region: str | None = Field(
        default=None,
        min_length=1,
        description="Region of the bucket; default that of the environment (AWS_REGION), and"
        " us-east-1 if endpoint is set.",
    )
    access_key: SecretStr | None = Field(
        default=None,
        description="Access key ID, with secret_key. Without keys and role the credentials are"
        " those that AWS's libraries find: environment, web identity, container, instance.",
    )
    access_key_file: Path | None = Field(
        default=None, description="File whose first line is the access key ID."
    )
    secret_key: SecretStr | None = Field(
        default=None, description="Secret access key. Never logged."
    )
    secret_key_file: Path | None = Field(
        default=None,
        description="File whose first line is the secret access key; read when the program starts.",
    )
    session_token: SecretStr | None = Field(
        default=None, description="Token of temporary keys. Never logged."
    )
    session_token_file: Path | None = Field(
        default=None, description="File whose first line is the token of temporary keys."
    )
    path_style: bool | None = Field(
        default=None,
        description="Name the bucket in the path of a request instead of its host; default true if"
        " endpoint is set, else false.",
    )
    role: str | None = Field(
        default=None,
        pattern=r"^arn:\S+$",
        description="ARN of a role to assume with the credentials that AWS's libraries find,"
        " instead of keys. tailrace status, explain and the page also need AWS_REGION in the"
        " environment.",
    )

    @model_validator(mode="after")
    def _one_way_in(self) -> Self:
        both = [name for name in _SECRETS if getattr(self, name) and getattr(self, f"{name}_file")]
        if both:
            raise ValueError(f"give {both[0]} or {both[0]}_file, not both")
        given = {name for name in _SECRETS if self._is_given(name)}
        if ("access_key" in given) != ("secret_key" in given):
            raise ValueError("give access_key and secret_key (or their files) together")
        if "session_token" in given and "access_key" not in given:
            raise ValueError("session_token needs access_key and secret_key")
        if self.role is not None and given:
            raise ValueError("give keys or role, not both")
        if "@" in (self.endpoint or ""):  # Messages and logs show the endpoint.
            raise ValueError("endpoint has keys in it: put them into access_key and secret_key")
        return self

    def hadoop(self) -> dict[str, str]:
        """Return Hadoop's settings, as Spark takes them (``spark.hadoop.*``).

        Raises:
            ConfigError: the file of a secret cannot be read.
        """
        region = self._region
        found = {
            "endpoint": self.endpoint,
            "endpoint.region": region,
            "path.style.access": str(self._is_path_style).lower(),
            "access.key": self._read("access_key"),
            "secret.key": self._read("secret_key"),
            "session.token": self._read("session_token"),
            "aws.credentials.provider": _GIVEN if self.role is None else _ROLE,
            "connection.timeout": _ANSWER_LIMIT,
            "assumed.role.arn": self.role,
            "assumed.role.credentials.provider": None if self.role is None else _CHAIN,
        }
        return {f"spark.hadoop.fs.s3a.{name}": text for name, text in found.items() if text}

    def storage_options(self) -> dict[str, str]:
        """Return what deltalake and Polars take as ``storage_options``.

        Raises:
            ConfigError: the file of a secret cannot be read.
        """
        is_plain = (self.endpoint or "").startswith("http:")
        found = {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ALLOW_HTTP": "true" if is_plain else None,
            "AWS_REGION": self._region,
            "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": str(not self._is_path_style).lower(),
            "AWS_ACCESS_KEY_ID": self._read("access_key"),
            "AWS_SECRET_ACCESS_KEY": self._read("secret_key"),
            "AWS_SESSION_TOKEN": self._read("session_token"),
            "AWS_IAM_ROLE_ARN": self.role,
            # Without it, an endpoint or keys in the environment make deltalake ignore the role.
            "AWS_FORCE_CREDENTIAL_LOAD": "true" if self.role else None,
        }
        return {name: text for name, text in found.items() if text}

    def pyarrow(self) -> dict[str, Any]:
        """Return the arguments of ``pyarrow.fs.S3FileSystem``.

        Raises:
            ConfigError: the file of a secret cannot be read.
        """
        scheme, _, host = (self.endpoint or "").rstrip("/").partition("://")
        found = {
            "endpoint_override": host,
            "scheme": scheme,
            "region": self._region,
            "force_virtual_addressing": bool(self.endpoint) and not self._is_path_style,
            "access_key": self._read("access_key"),
            "secret_key": self._read("secret_key"),
            "session_token": self._read("session_token"),
            "role_arn": self.role,
        }
        return {name: value for name, value in found.items() if value}

    def pyiceberg(self) -> dict[str, str]:
        """Return what pyiceberg opens files with.

        Raises:
            ConfigError: the file of a secret cannot be read.
        """
        found = {
            "endpoint": self.endpoint,
            "region": self._region,
            "access-key-id": self._read("access_key"),
            "secret-access-key": self._read("secret_key"),
            "session-token": self._read("session_token"),
            "role-arn": self.role,
            "force-virtual-addressing": str(not self._is_path_style).lower(),
            "connect-timeout": "5",
            "request-timeout": "60",
        }
        return {f"s3.{name}": text for name, text in found.items() if text}

    def duckdb(self) -> str:
        """Return the statement with which DuckDB gets these options, as a secret.

        Raises:
            ConfigError: the file of a secret cannot be read.
        """
        scheme, _, host = (self.endpoint or "").rstrip("/").partition("://")
        found = {
            "PROVIDER": None if self._is_given("access_key") else "credential_chain",
            "CHAIN": "sts" if self.role else None,
            "ASSUME_ROLE_ARN": self.role,
            "ENDPOINT": host,
            "USE_SSL": "false" if scheme == "http" else None,
            "URL_STYLE": "path" if self._is_path_style else None,
            "REGION": self._region,
            "KEY_ID": self._read("access_key"),
            "SECRET": self._read("secret_key"),
            "SESSION_TOKEN": self._read("session_token"),
        }
        pairs = (f"{name} {_quoted(text)}" for name, text in found.items() if text)
        return f"CREATE OR REPLACE SECRET tailrace_lake (TYPE s3, {', '.join(pairs)})"

    @property
    def _region(self) -> str | None:
        return self.region or (_DEFAULT_REGION if self.endpoint else None)

    @property
    def _is_path_style(self) -> bool:
        return bool(self.endpoint) if self.path_style is None else self.path_style

    def _is_given(self, name: str) -> bool:
        return bool(getattr(self, name) or getattr(self, f"{name}_file"))

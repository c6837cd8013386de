"""The options of the schema registry."""

from __future__ import annotations

from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, model_validator

from tailrace_service.options.sections import Section


class RegistryConfig(Section):
    """The schema registry with Confluent's REST API."""

    url: str = Field(pattern=r"^https?://", description="Base address, e.g. http://host:8081.")
    timeout_s: float = Field(
        default=10.0, ge=0.1, le=300.0, description="Seconds per request; 0.1 to 300."
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
        " one requires no restart.",
    )
    token: SecretStr | None = Field(
        default=None, description="Bearer token, instead of user and password. Never logged."
    )
    token_file: Path | None = Field(
        default=None,
        description="File whose first line is the token; read for every request, so a"
        " renewed one requires no restart.",
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

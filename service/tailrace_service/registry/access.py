"""How the registry's client authenticates: user and password, bearer token, certificates."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Generator
from pathlib import Path

import httpx
from pydantic import SecretStr

from tailrace_service.options.sections import SecretUnreadable, read_secret
from tailrace_service.registry.client import RegistryError, SchemaRegistry
from tailrace_service.registry.options import RegistryConfig


class RegistryAccessUnusable(RegistryError):
    """A file that is needed to be let in cannot be used: waiting does not help."""

    of_one_table = False


def open_registry(config: RegistryConfig) -> SchemaRegistry:
    """A client of the registry that a configuration names.

    Raises:
        RegistryAccessUnusable: a certificate cannot be used; names the option.
    """
    return SchemaRegistry(config.url, config.timeout_s, auth=_auth_of(config), tls=_tls_of(config))


class _Header(httpx.Auth):
    """Authenticates each request, with a secret that is read again: it may have been renewed."""

    def __init__(self, read: Callable[[], httpx.Auth | str]) -> None:
        self._read = read

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        found = self._read()
        if isinstance(found, str):
            request.headers["Authorization"] = f"Bearer {found}"
            yield request
        else:
            yield from found.auth_flow(request)


def _auth_of(config: RegistryConfig) -> httpx.Auth | None:
    user = config.user
    if user is not None:
        return _Header(
            lambda: httpx.BasicAuth(
                user, _secret("password", config.password, config.password_file)
            )
        )
    if config.token is not None or config.token_file is not None:
        return _Header(lambda: _secret("token", config.token, config.token_file))
    return None


def _secret(option: str, given: SecretStr | None, file: Path | None) -> str:
    if file is None:
        return given.get_secret_value() if given is not None else ""
    try:
        return read_secret(f"registry.{option}_file", file)
    except SecretUnreadable as error:
        raise RegistryAccessUnusable(str(error)) from error


def _tls_of(config: RegistryConfig) -> ssl.SSLContext | None:
    if not config.url.startswith("https:"):
        return None
    given = [config.ca_file, config.client_certificate, config.client_key]
    for file in filter(None, given):
        if not file.is_file():
            raise RegistryAccessUnusable(f"registry: there is no file {file}: check its path")
    try:
        context = ssl.create_default_context(cafile=config.ca_file)
    except (OSError, ssl.SSLError) as error:
        raise RegistryAccessUnusable(
            f"registry.ca_file {config.ca_file} holds no certificates in PEM form: {error}"
        ) from error
    if config.client_certificate is not None:
        secret = config.client_key_password
        password = secret.get_secret_value() if secret is not None else ""
        try:
            context.load_cert_chain(config.client_certificate, config.client_key, password)
        except (OSError, ssl.SSLError) as error:
            raise RegistryAccessUnusable(
                "registry.client_certificate and client_key (with client_key_password) do not go"
                f" together, or are not in PEM form: {error}"
            ) from error
    return context

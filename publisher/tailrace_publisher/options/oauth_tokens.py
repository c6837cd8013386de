"""Tokens for brokers with SASL/OAUTHBEARER, from a function of the user.

librdkafka calls such a function an ``oauthbearer_token_refresh_cb``. It gets the text of
``sasl.oauthbearer.config`` and returns ``(token, expires_at)``, the latter in seconds since 1970. A
principal (text) and SASL extensions (texts by text) may follow.

It is called once before the clients are created, so that its errors can be reported by name. A
client only reports that its callback raised an exception.
"""

from __future__ import annotations

import importlib
import math
import threading
import time
from collections.abc import Callable
from typing import Any, Final

import structlog

from tailrace_publisher.errors import ConfigError, TokenUnavailable

OPTION: Final = "kafka.oauth_callback"
Token = tuple[Any, ...]
"""The form of librdkafka's Python client: token, seconds since 1970, optionally principal and
extensions."""

_log = structlog.get_logger(__name__)


class OAuthTokens:
    """The newest token of a function, for all clients of a connection.

    Clients request a token when four fifths of its lifetime are over. A token is returned again
    until half of its lifetime is over, so clients that start together share a call.

    Args:
        name: the function, as package.module:function.
        config: the text of sasl.oauthbearer.config, its argument.

    Raises:
        ConfigError: there is no such module or function.
    """

    def __init__(self, name: str, config: str) -> None:
        self._name = name
        self._config = config
        self._function = _found(name)
        self._lock = threading.Lock()
        self._token: Token = ()
        self._good_until = -math.inf

    def first(self) -> None:
        """Fetch a token, unless there is one.

        Raises:
            ConfigError: the function returned something other than a token.
            TokenUnavailable: it raised an exception.
        """
        with self._lock:
            if time.time() >= self._good_until:
                self._fetch()

    def __call__(self, _: str) -> Token:
        """Return a token as a client's callback; the argument is the known config text."""
        try:
            self.first()
        except (ConfigError, TokenUnavailable) as error:
            _log.warning("oauth_token_unavailable", callback=self._name, error=str(error))
            raise
        return self._token

    def _fetch(self) -> None:
        try:
            answer = self._function(self._config)
        except Exception as error:
            raise TokenUnavailable(
                f"{OPTION} {self._name} raised {type(error).__name__}: {error}: without a token no"
                " broker can be reached; it is called again"
            ) from error
        now = time.time()
        wrong = _wrong_of(answer, now)
        if wrong is not None:
            raise ConfigError(
                [
                    f"{OPTION} {self._name} returned {wrong}. Fix: return (token, expires_at), or"
                    " (token, expires_at, principal, extensions): a text, seconds since 1970, a"
                    " text, texts by text"
                ]
            )
        self._token = (answer[0], float(answer[1]), *answer[2:])
        self._good_until = now + (float(answer[1]) - now) / 2


def _found(name: str) -> Callable[[str], Any]:
    """Return the function of that name."""
    module, _, path = name.partition(":")
    try:
        found: Any = importlib.import_module(module)
    except Exception as error:
        raise ConfigError(
            [
                f"{OPTION} {name}: module {module} cannot be imported ({type(error).__name__}:"
                f" {error}). Fix: install its package where Tailrace is, or set PYTHONPATH"
            ]
        ) from error
    for part in path.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        raise ConfigError([f"{OPTION} {name}: module {module} has no function {path}"])
    return found  # type: ignore[no-any-return]


def _wrong_of(answer: object, now: float) -> str | None:
    """Return what is wrong with the function's result, without the token; None if it is valid."""
    if not isinstance(answer, tuple) or not 2 <= len(answer) <= 4:
        kind = type(answer).__name__
        return f"a tuple of {len(answer)}" if isinstance(answer, tuple) else f"a value of {kind}"
    token, expires_at, *more = answer
    if not isinstance(token, str) or not token:
        return "a token that is no text, or empty"
    if isinstance(expires_at, bool) or not isinstance(expires_at, int | float):
        return f"an expiry of {type(expires_at).__name__}"
    if not math.isfinite(expires_at) or expires_at <= now:
        return f"a token that has expired ({expires_at})"
    if expires_at > now + _LONGEST_S:
        return f"an expiry in more than a hundred years ({expires_at}); milliseconds, perhaps"
    if more and not isinstance(more[0], str):
        return f"a principal of {type(more[0]).__name__}"
    if len(more) > 1:
        extensions = more[1]
        if not isinstance(extensions, dict) or not all(
            isinstance(k, str) and isinstance(v, str) for k, v in extensions.items()
        ):
            return "extensions that are not a dictionary of texts"
    return None


_LONGEST_S: Final = 100 * 366 * 86_400

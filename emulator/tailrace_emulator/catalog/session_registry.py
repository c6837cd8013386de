"""The sessions of a server's clients, so that one can be shown the others.

Another session's context is read while its own thread runs: each value that a view shows is one
attribute, read once.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext
    from tailrace_emulator.storage.engine import Engine

_LOCK: Final = threading.Lock()
_SESSIONS: Final[WeakKeyDictionary[Engine, dict[int, SessionContext]]] = WeakKeyDictionary()

SEES_ALL: Final = "VIEW SERVER PERFORMANCE STATE"
"""What VIEW SERVER STATE implies; without it a session sees itself only."""


def put_session(context: SessionContext) -> None:
    """A client's session was opened."""
    with _LOCK:
        _SESSIONS.setdefault(context.engine, {})[context.session_id] = context


def remove_session(context: SessionContext) -> None:
    """A client's session was closed."""
    with _LOCK:
        known = _SESSIONS.get(context.engine, {})
        if known.get(context.session_id) is context:
            del known[context.session_id]


def visible_sessions(context: SessionContext) -> list[SessionContext]:
    """The sessions that a session may see, by id: all of them, or itself."""
    if not context.security.has_on_server(SEES_ALL):
        return [context]
    with _LOCK:
        known = dict(_SESSIONS.get(context.engine, {}))
    known[context.session_id] = context
    return [known[number] for number in sorted(known)]

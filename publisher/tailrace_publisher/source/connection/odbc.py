"""The C interface of the ODBC driver manager, as far as reading blocks of rows needs it.

pyodbc creates a Python object for every value. Here the driver writes the cells of many rows into
one piece of memory (``SQLBindCol`` with a row array), without compiled code of ours. The calls
release the interpreter's lock while the driver works.

https://learn.microsoft.com/sql/odbc/reference/syntax/odbc-api-reference
"""

from __future__ import annotations

import ctypes
import ctypes.util
import sys
from collections.abc import Sequence
from typing import Any, Final

SUCCESS: Final = 0
SUCCESS_WITH_INFO: Final = 1
NO_DATA: Final = 100

ENVIRONMENT: Final = 1
CONNECTION: Final = 2
STATEMENT: Final = 3

_SMALL = ctypes.c_short
_INTEGER = ctypes.c_int
_LENGTH = ctypes.c_ssize_t
_HANDLE = ctypes.c_void_p
_POINTER = ctypes.c_void_p

_FUNCTIONS: Final[dict[str, tuple[Any, ...]]] = {
    "SQLAllocHandle": (_SMALL, _HANDLE, _POINTER),
    "SQLFreeHandle": (_SMALL, _HANDLE),
    "SQLSetEnvAttr": (_HANDLE, _INTEGER, _POINTER, _INTEGER),
    "SQLSetConnectAttrW": (_HANDLE, _INTEGER, _POINTER, _INTEGER),
    "SQLSetStmtAttrW": (_HANDLE, _INTEGER, _POINTER, _INTEGER),
    "SQLDriverConnectW": (
        *(_HANDLE, _POINTER, _POINTER, _SMALL, _POINTER, _SMALL, _POINTER),
        ctypes.c_ushort,
    ),
    "SQLDisconnect": (_HANDLE,),
    "SQLGetDiagRecW": (_SMALL, _HANDLE, _SMALL, _POINTER, _POINTER, _POINTER, _SMALL, _POINTER),
    "SQLBindParameter": (
        *(_HANDLE, ctypes.c_ushort, _SMALL, _SMALL, _SMALL, ctypes.c_size_t, _SMALL),
        *(_POINTER, _LENGTH, _POINTER),
    ),
    "SQLExecDirectW": (_HANDLE, _POINTER, _INTEGER),
    "SQLNumResultCols": (_HANDLE, _POINTER),
    "SQLDescribeColW": (
        *(_HANDLE, ctypes.c_ushort, _POINTER, _SMALL, _POINTER),
        *(_POINTER, _POINTER, _POINTER, _POINTER),
    ),
    "SQLBindCol": (_HANDLE, ctypes.c_ushort, _SMALL, _POINTER, _LENGTH, _POINTER),
    "SQLGetStmtAttrW": (_HANDLE, _INTEGER, _POINTER, _INTEGER, _POINTER),
    "SQLSetDescFieldW": (_HANDLE, _SMALL, _SMALL, _POINTER, _INTEGER),
    "SQLFetch": (_HANDLE,),
    "SQLMoreResults": (_HANDLE,),
    "SQLFreeStmt": (_HANDLE, ctypes.c_ushort),
    "SQLCancel": (_HANDLE,),
}
_MESSAGE_UNITS: Final = 4096


class OdbcError(Exception):
    """The driver refused a call.

    Attributes:
        records: (SQLSTATE, native number, message) of every diagnostic record.
    """

    def __init__(self, records: Sequence[tuple[str, int, str]]) -> None:
        self.records = tuple(records)
        super().__init__("; ".join(f"[{state}] {text} ({n})" for state, n, text in self.records))


class DriverManager:
    """The functions of the library, each raising :class:`OdbcError`.

    Raises:
        OSError: the library is not installed.
    """

    def __init__(self) -> None:
        self._library = _load()
        for name, arguments in _FUNCTIONS.items():
            function = getattr(self._library, name)
            function.argtypes = arguments
            function.restype = _SMALL

    def allocate(self, kind: int, parent: int | None) -> int:
        """Return a new handle."""
        handle = ctypes.c_void_p()
        code = self._library.SQLAllocHandle(kind, parent, ctypes.byref(handle))
        if code not in {SUCCESS, SUCCESS_WITH_INFO} or handle.value is None:
            raise OdbcError(self._records(kind - 1, parent))
        return handle.value

    def free(self, kind: int, handle: int) -> None:
        """Free a handle."""
        self._library.SQLFreeHandle(kind, handle)

    def call(self, name: str, kind: int, handle: int, *arguments: Any) -> int:
        """Call a function with a handle of a kind.

        Returns:
            SUCCESS, SUCCESS_WITH_INFO or NO_DATA.

        Raises:
            OdbcError: the driver returned any other code.
        """
        code: int = getattr(self._library, name)(handle, *arguments)
        if code not in {SUCCESS, SUCCESS_WITH_INFO, NO_DATA}:
            raise OdbcError(self._records(kind, handle))
        return code

    def _records(self, kind: int, handle: int | None) -> list[tuple[str, int, str]]:
        records: list[tuple[str, int, str]] = []
        state = (ctypes.c_uint16 * 6)()
        native = ctypes.c_int()
        text = (ctypes.c_uint16 * _MESSAGE_UNITS)()
        length = ctypes.c_short()
        while handle is not None:
            code = self._library.SQLGetDiagRecW(
                *(kind, handle, len(records) + 1, state, ctypes.byref(native)),
                *(text, _MESSAGE_UNITS, ctypes.byref(length)),
            )
            if code not in {SUCCESS, SUCCESS_WITH_INFO}:
                break
            shown = bytes(text)[: 2 * min(length.value, _MESSAGE_UNITS - 1)]
            records.append(
                (bytes(state)[:10].decode("utf-16-le"), native.value, shown.decode("utf-16-le"))
            )
        return records


def wide(text: str) -> tuple[Any, int]:
    """Return a string as the W functions expect it, and its length in code units."""
    raw = text.encode("utf-16-le")
    return ctypes.create_string_buffer(raw + b"\0\0", len(raw) + 2), len(raw) // 2


def _load() -> Any:
    if sys.platform == "win32":
        return ctypes.WinDLL("odbc32.dll")
    # The library that pyodbc is linked to: two libraries would each load a driver of their own.
    names = ["libodbc.so.2", "libodbc.2.dylib"]
    found = ctypes.util.find_library("odbc")
    for name in [*names, *([found] if found else [])]:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise OSError("the ODBC driver manager (unixODBC) was not found")

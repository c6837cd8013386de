"""Finding the Microsoft ODBC driver: an installed one, else the one inside a Python package."""

from __future__ import annotations

import importlib.util
import platform
import re
import sys
from pathlib import Path
from typing import Any, Final

from tailrace_publisher.errors import ConfigError

_DRIVER_NAME: Final = re.compile(r"^ODBC Driver (\d+) for SQL Server$")
_PACKAGE: Final = "mssql_python_odbc"
_LIBRARY: Final = {
    "linux": "libmsodbcsql-*",
    "darwin": "libmsodbcsql*.dylib",
    "win32": "msodbcsql*.dll",
}
_MACHINE: Final = {
    "x86_64": ("x86_64", "x64", "amd64"),
    "AMD64": ("x64", "amd64"),
    "aarch64": ("arm64", "aarch64"),
    "arm64": ("arm64",),
}


def load_pyodbc() -> Any:
    """Return the pyodbc module, configured for the publisher's values.

    Raises:
        ConfigError: the ODBC driver manager (unixODBC) is not installed.
    """
    try:
        import pyodbc
    except ImportError as error:
        raise ConfigError(
            [
                f"pyodbc cannot be loaded ({error}). Fix: install unixODBC (Debian: apt-get install"
                " unixodbc)"
            ]
        ) from error
    # A pooled connection could be one that a restored or failed-over database left behind.
    pyodbc.pooling = False
    pyodbc.native_uuid = True
    return pyodbc


def find_driver(configured: str | None) -> str:
    """Return the name or library path of the ODBC driver to use.

    Raises:
        ConfigError: none was found, or the configured one does not exist.
    """
    installed: list[str] = [name for name in load_pyodbc().drivers() if _DRIVER_NAME.match(name)]
    if configured is not None:
        if configured in installed or Path(configured).is_file():
            return configured
        raise ConfigError(
            [
                f"source.driver = {configured!r}: neither an installed driver"
                f" ({', '.join(installed) or 'none is installed'}) nor a file"
            ]
        )
    if installed:
        return max(installed, key=_version_of)
    packaged = _packaged_driver()
    if packaged is None:
        raise ConfigError(
            [
                "source.driver: no 'ODBC Driver NN for SQL Server' is installed. Fix: install"
                " msodbcsql18, or the Python package mssql-python-odbc, which contains it"
            ]
        )
    return str(packaged)


def _version_of(name: str) -> int:
    match = _DRIVER_NAME.match(name)
    return int(match.group(1)) if match else 0


def _packaged_driver() -> Path | None:
    """Return the library for this system inside the package mssql-python-odbc."""
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or spec.origin is None:
        return None
    machines = _MACHINE.get(platform.machine(), (platform.machine(),))
    found = [
        path
        for path in sorted(
            (Path(spec.origin).parent / "libs").rglob(_LIBRARY.get(sys.platform, ""))
        )
        if set(machines) & set(path.parts)
    ]
    family = _linux_family()
    return next((path for path in found if family in path.parts), found[0] if found else None)


def _linux_family() -> str:
    """Return the package's folder for this distribution; the folders differ in linked libraries."""
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        return ""
    names = {release.get("ID", ""), *release.get("ID_LIKE", "").split()}
    for family, members in {
        "debian_ubuntu": {"debian", "ubuntu"},
        "rhel": {"rhel", "fedora", "centos"},
        "suse": {"suse", "sles", "opensuse"},
        "alpine": {"alpine"},
    }.items():
        if names & members:
            return family
    return "debian_ubuntu"

"""Finds the Microsoft ODBC driver: the system's when it is installed, else the one from PyPI."""

import importlib.util
import platform
import re
from collections.abc import Iterable
from pathlib import Path

from tailrace_emulator.testing.errors import DriverMissing

_SYSTEM_DRIVER = re.compile(r"ODBC Driver (\d+) for SQL Server")
_PACKAGE = "mssql_python_odbc"
# The package's folder for each family of distributions, by the names in /etc/os-release.
_DISTRIBUTIONS = {
    "debian": "debian_ubuntu",
    "ubuntu": "debian_ubuntu",
    "alpine": "alpine",
    "rhel": "rhel",
    "fedora": "rhel",
    "centos": "rhel",
    "suse": "suse",
    "opensuse": "suse",
    "sles": "suse",
}
_ARCHITECTURES = {"aarch64": "arm64", "amd64": "x86_64"}


def driver() -> str:
    """Returns the value for `DRIVER=` in a connection string, braces included.

    Raises:
        DriverMissing: there is none; the message says what to install.
    """
    try:
        import pyodbc
    except ImportError as error:
        raise DriverMissing(
            f"pyodbc cannot be loaded ({error}). "
            "Install unixODBC (Debian: apt-get install unixodbc)."
        ) from error
    name = newest(pyodbc.drivers())
    if name is not None:
        return f"{{{name}}}"
    library = packaged_library()
    if library is None:
        raise DriverMissing(
            "No ODBC driver for SQL Server: neither 'ODBC Driver 18 for SQL Server' in "
            "odbcinst.ini nor the PyPI package mssql-python-odbc. Run `make setup`."
        )
    return f"{{{library}}}"


def newest(names: Iterable[str]) -> str | None:
    """Returns the newest Microsoft driver for SQL Server among installed drivers' names."""
    versions = {int(match[1]): name for name in names if (match := _SYSTEM_DRIVER.fullmatch(name))}
    return versions[max(versions)] if versions else None


def packaged_library() -> Path | None:
    """Returns the driver library of the package mssql-python-odbc that fits this machine."""
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        return None
    libraries = Path(spec.submodule_search_locations[0]) / "libs"
    machine = platform.machine().lower()
    architecture = _ARCHITECTURES.get(machine, machine)
    if platform.system() == "Darwin":
        found = sorted(libraries.glob(f"macos/{architecture}/**/libmsodbcsql*.dylib"))
    else:
        pattern = f"linux/{_distribution()}/{architecture}/lib/libmsodbcsql-*.so*"
        found = sorted(libraries.glob(pattern))
    return found[-1] if found else None


def _distribution() -> str:
    """Returns the package's folder for this Linux; Debian's build where nothing better is known."""
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        release = {}
    names = [release.get("ID", ""), *release.get("ID_LIKE", "").split()]
    return next((_DISTRIBUTIONS[name] for name in names if name in _DISTRIBUTIONS), "debian_ubuntu")

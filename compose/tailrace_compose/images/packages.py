"""The locked packages that an image needs, from the lock's own "via" notes.

``python packages.py publisher < requirements.lock`` prints the part of the lock for an image. It
runs in an image's build stage before anything is installed, so it uses the standard library only.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Collection

ROOTS: dict[str, frozenset[str]] = {
    # Builds wheels of PySpark's source archive and of Tailrace itself.
    "builder": frozenset({"setuptools"}),
    # Publisher and embedded server: no Spark, no lake, no data set of the demo.
    "publisher": frozenset(
        {
            "apsw",
            "click",
            "confluent-kafka",
            "cryptography",
            "fastavro",
            "httpx",
            "mssql-python-odbc",
            "opentelemetry-exporter-otlp-proto-http",
            "opentelemetry-sdk",
            "prometheus-client",
            "pydantic",
            "pyodbc",
            "pyyaml",
            "structlog",
        }
    ),
}
# The sink's image also runs `tailrace status`, which queries the source and the commit table.
# PySpark asks for pandas before it runs a function over Arrow.
ROOTS["sink"] = ROOTS["publisher"] - {"apsw"} | {
    *("deltalake", "numpy", "pandas", "pyarrow", "pyroaring", "pyspark", "rich")
}

_ENTRY = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)==[^\n]*\n(?:[ ]+[^\n]*\n?)*", re.MULTILINE)
_VIA = re.compile(r"^ +# +(?:via )?([A-Za-z0-9._-]+)", re.MULTILINE)
_NOTE = re.compile(r"^ +#.*\n?", re.MULTILINE)


class PackageUnknown(Exception):
    """An image needs a package that the lock does not have."""


def part_of(lock: str, roots: Collection[str]) -> str:
    """Return the entries of some packages and of all that they need, with their hashes.

    Args:
        lock: text written by uv or pip-tools, with the notes on which package needs which.

    Raises:
        PackageUnknown: the lock has no entry for a root.
    """
    entries: dict[str, str] = {}
    for match in _ENTRY.finditer(lock):  # A package may have an entry for each release of Python.
        entries[match["name"]] = entries.get(match["name"], "") + match[0]
    unknown = sorted(set(roots) - entries.keys())
    if unknown:
        raise PackageUnknown(f"requirements.lock has no entry for {', '.join(unknown)}")
    needed_by = {name: set(_VIA.findall(text)) for name, text in entries.items()}
    wanted = set(roots)
    while True:
        more = {name for name, parents in needed_by.items() if parents & wanted} - wanted
        if not more:
            # Without the notes: a changed note on who needs a package must not rebuild an image.
            return "".join(_NOTE.sub("", entries[name]) for name in sorted(wanted))
        wanted |= more


def main(arguments: list[str]) -> int:
    """Print the part of the lock on standard input that an image needs."""
    if len(arguments) != 1 or arguments[0] not in ROOTS:
        sys.stderr.write(f"usage: packages.py {'|'.join(sorted(ROOTS))} < requirements.lock\n")
        return 2
    try:
        sys.stdout.write(part_of(sys.stdin.read(), ROOTS[arguments[0]]))
    except PackageUnknown as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""xp_msver: what the server is and on what it runs.

https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/xp-msver-transact-sql
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from tailrace_emulator.catalog.procedure_registry import (
    Arguments,
    ProcedureParameter,
    procedure,
    result_set,
    text,
)
from tailrace_emulator.catalog.property_functions import EDITION, PRODUCT_VERSION
from tailrace_emulator.values.results import Event
from tailrace_emulator.values.types import nvarchar

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext

_NAME: Final = nvarchar(128)
_OPTIONS_MAX: Final = 4
_MEGABYTE: Final = 1024 * 1024

Facts = tuple[str, int | None, str | None]


def _facts() -> tuple[Facts, ...]:
    """Name, number and text of each fact, in SQL Server's order."""
    major, minor, build, revision = (int(part) for part in PRODUCT_VERSION.split("."))
    processors = os.cpu_count() or 1
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return (
        ("ProductName", None, EDITION),
        ("ProductVersion", major << 16 | minor, PRODUCT_VERSION),
        ("Language", 1033, "English (United States)"),
        ("Platform", None, f"{platform.system()} {platform.machine()}"),
        ("Comments", None, "SQL"),
        ("CompanyName", None, None),
        ("FileDescription", None, EDITION),
        ("FileVersion", None, f"{major}.{minor}.{build}.{revision:02}"),
        ("InternalName", None, None),
        ("LegalCopyright", None, None),
        ("LegalTrademarks", None, None),
        ("OriginalFilename", None, None),
        ("PrivateBuild", None, None),
        ("SpecialBuild", build << 16 | revision, None),
        ("WindowsVersion", None, platform.release()),
        ("ProcessorCount", processors, str(processors)),
        ("ProcessorActiveMask", None, f"{(1 << processors) - 1:16x}"),
        ("ProcessorType", None, platform.machine()),
        ("PhysicalMemory", memory // _MEGABYTE, f"{memory // _MEGABYTE} ({memory})"),
        ("Product ID", None, None),
    )


@procedure(
    "xp_msver", *(ProcedureParameter(f"@optname{n}", _NAME, None) for n in range(_OPTIONS_MAX))
)
def _msver(_context: SessionContext, args: Arguments) -> Iterator[Event]:
    wanted = {name.casefold() for value in args.values() if (name := text(value))}
    yield from result_set(
        "Index int!, Name nvarchar(128)!, Internal_Value int, Character_Value nvarchar(255)",
        (
            (number, *fact)
            for number, fact in enumerate(_facts(), 1)
            if not wanted or fact[0].casefold() in wanted
        ),
    )

"""What an extension of the engine adds to the catalog, and how the catalog gets it.

The system's own views, procedures and functions are declared in this package. What stands on the
engine (storage/extensions.py) hands in a :class:`CatalogExtension` with its own, and with
what only it can say of a database.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from tailrace_emulator.catalog.procedure_access import authorize_procedure
from tailrace_emulator.catalog.procedure_registry import Authorize, SystemProcedures
from tailrace_emulator.catalog.registry import SystemViews
from tailrace_emulator.catalog.scalar_registry import SystemFunctions
from tailrace_emulator.catalog.system_routines import SystemRoutines

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext
    from tailrace_emulator.catalog.database_objects import GeneratedObject
    from tailrace_emulator.catalog.table_functions import TableFunction
    from tailrace_emulator.storage.engine import Database, Engine
    from tailrace_emulator.storage.model import Table


@dataclass(frozen=True, slots=True)
class DatabaseFacts:
    """What sys.databases shows of a database that storage does not know.

    Attributes:
        is_captured: shown in its column is_cdc_enabled.
        is_published: whether it may have publications.
        log_waits: whether its log keeps something that is still to be read.
    """

    is_captured: bool = False
    is_published: bool = False
    log_waits: bool = False


@dataclass(frozen=True, slots=True)
class DatabaseTrigger:
    """A trigger for DDL.

    Attributes:
        events: their types and names in sys.trigger_events.
    """

    name: str
    create_ticks: int
    events: tuple[tuple[int, str], ...]


NO_FACTS: Final = DatabaseFacts()


class Declarations:
    """What the modules of an extension declare, as those of this package do the system's own."""

    def __init__(self, authorize: Authorize = authorize_procedure) -> None:
        """Begin; ``authorize`` checks who may run the procedures."""
        self.routines = SystemRoutines()
        self.views = SystemViews()
        self.procedures = SystemProcedures(self.routines, authorize)
        self.functions = SystemFunctions(self.routines)


NOTHING_DECLARED: Final = Declarations()


class CatalogExtension:
    """What an extension adds; this class adds nothing."""

    refused_in_msdb: ClassVar[frozenset[str]] = frozenset()
    """Procedures that SQL Server has in msdb and that are refused by name, casefolded."""

    def __init__(self, declared: Declarations | None = None) -> None:
        """Begin; ``declared`` is complete."""
        self.declared = declared or NOTHING_DECLARED

    def table_function(
        self, _context: SessionContext, _database: Database, _schema: str, _name: str
    ) -> TableFunction | None:
        """The table-valued function of that name in one of the extension's schemas, or None."""
        return None

    def objects(self, _context: SessionContext, _database: Database) -> Iterable[GeneratedObject]:
        """What it has created in a database in addition to tables."""
        return ()

    def database_triggers(self, _database: Database) -> Iterable[DatabaseTrigger]:
        """Its triggers for DDL in a database."""
        return ()

    def facts(self, _database: Database) -> DatabaseFacts:
        """What sys.databases shows of it."""
        return NO_FACTS

    def is_replicated(self, _database: Database, _table: Table) -> bool:
        """Whether a table is an article of a publication."""
        return False

    def services(self, _engine: Engine) -> Iterable[tuple[str, bool]]:
        """Services other than the server itself, and whether they run."""
        return ()


def extension(engine: Engine) -> CatalogExtension:
    """What is added to the catalog of an engine."""
    return engine.part(CatalogExtension)

"""What a session keeps between statements for T-SQL: plans, local tables, row sets for SQLite."""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Protocol

import apsw
import apsw.ext

from tailrace_emulator.tsql.compile.lenient import lenient, register_lenient
from tailrace_emulator.tsql.compile.random_numbers import RandomNumbers
from tailrace_emulator.tsql.functions.sqlite_functions import register_functions
from tailrace_emulator.values.types import StorageValue

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext
    from tailrace_emulator.catalog.functions import ScalarFunction
    from tailrace_emulator.catalog.set_options import Semantics
    from tailrace_emulator.security.context import Identity
    from tailrace_emulator.storage.catalog_state import Module
    from tailrace_emulator.storage.engine import Database
    from tailrace_emulator.tsql.compile.frames import Frame
    from tailrace_emulator.tsql.compile.guard import Described
    from tailrace_emulator.tsql.compile.local_tables import LocalTable
    from tailrace_emulator.tsql.syntax.bulk_load import InsertBulk
    from tailrace_emulator.tsql.syntax.nodes import Expression, Node

_PLANS_MAX: Final = 300
_OWN_MAX: Final = 2000
_ROW_SET_COLUMNS: Final = 128
"""More than any system view has (sys.databases has about a hundred)."""

_LOCALS_FIRST_ID: Final = 1
NULL_ELIMINATED: Final = 8153
"""The message of an aggregate that leaves NULL out."""


class RowSets:
    """The table-valued SQLite function ``rows_of(n)``: rows that Python made, as a table."""

    columns: Any = tuple(f"v{n}" for n in range(_ROW_SET_COLUMNS))
    column_access = apsw.ext.VTColumnAccess.By_Index
    primary_key: int | None = None

    def __init__(self) -> None:
        self._rows: dict[int, Sequence[Sequence[StorageValue]]] = {}
        self._keys = itertools.count(1)

    def __call__(self, key: Any) -> Iterator[Sequence[StorageValue]]:
        """The rows of one set."""
        return iter(self._rows.get(key, ()))

    def put(self, rows: Sequence[Sequence[StorageValue]]) -> int:
        """Keeps rows until :meth:`drop`; returns their key."""
        key = next(self._keys)
        self._rows[key] = rows
        return key

    def drop(self, keys: Sequence[int]) -> None:
        """Forgets rows."""
        for key in keys:
            self._rows.pop(key, None)


class UserFunctions(Protocol):
    """Calls users' functions while the statement that calls them runs."""

    def scalar(
        self, database: Database, schema: str, name: str, arguments: Sequence[StorageValue]
    ) -> StorageValue:
        """The value of a scalar function."""

    def table(
        self, database: Database, schema: str, name: str, arguments: Sequence[StorageValue]
    ) -> list[tuple[StorageValue, ...]]:
        """The rows of a function that fills a table variable."""

    def packed(
        self, database: Database, schema: str, name: str, arguments: Sequence[StorageValue]
    ) -> str:
        """The same rows as JSON."""


class Workspace:
    """One session's T-SQL state; not thread-safe."""

    def __init__(self, context: SessionContext) -> None:
        """Register functions on the session's connection."""
        self.context = context
        self.connection: apsw.Connection = context.store.connection
        self.row_sets = RowSets()
        self.temporary: dict[str, LocalTable] = {}
        """#temp tables by casefolded name."""
        context.temporary = self.temporary
        self.global_tables: set[int] = set()
        """Object ids of the ##tables that the session made."""
        self.temporary_modules: set[int] = set()
        """Object ids of the #procedures and ##procedures that the session made."""
        self.local_version = 0
        """Bumped when a local table comes or goes."""
        self.bulk_load: InsertBulk | None = None
        """The INSERT BULK whose rows are to come with the next request."""
        self.in_insert_exec = False
        """INSERT .. EXEC is running its procedure."""
        self.doomed = False
        """An error in TRY made the transaction uncommittable (XACT_STATE() is -1)."""
        self.functions: UserFunctions
        """Calls users' functions; the interpreter sets it."""
        self.random = RandomNumbers()
        """What RAND() gives."""
        self.sequence_values: dict[int, int] = {}
        """The values that sequences gave last, by object id."""
        self.graveyard: list[str] = []
        """SQLite tables to be dropped as soon as no statement is being read."""
        self.triggers: list[Module] = []
        """Running now, innermost last."""
        self._compound: OrderedDict[Node, Expression] = OrderedDict()
        """``@x + y`` of ``SET @x += y``."""
        self.plans: OrderedDict[tuple[Node, str, Identity, Semantics], list[Any]] = OrderedDict()
        self.undeclared: Described | None = None
        """The last answer about undeclared parameters."""
        self.owed: set[int] = set()
        """Numbers of the messages that the running statement owes its client."""
        self._is_lenient = False
        self._local_ids = itertools.count(_LOCALS_FIRST_ID)
        self._own: dict[object, int] = {}
        self._own_calls: dict[int, Callable[..., StorageValue]] = {}
        self._own_numbers = itertools.count()
        register_functions(self.connection)
        self.frame: Frame | None = None
        """Whose variables ``t_get`` and ``t_set`` mean."""
        self.connection.create_scalar_function("t_get", self._get_variable, 1)
        self.connection.create_scalar_function("t_set", self._set_variable, 2)
        self.connection.create_scalar_function("t_null_eliminated", self._null_eliminated, -1)
        self.connection.create_scalar_function("t_own", self._call_own, -1)
        apsw.ext.make_virtual_module(self.connection, "rows_of", self.row_sets)

    def next_local_id(self) -> int:
        """A number for a new local table."""
        return next(self._local_ids)

    def catalog_function(self, function: ScalarFunction, database: Database | None) -> int:
        """The number under which compiled text calls (``t_own``) a function of the catalog."""
        call = partial(self._call_catalog, function, database)
        return self.own_function(("catalog", function, database), call)

    def own_function(self, key: object, call: Callable[..., StorageValue]) -> int:
        """The number under which compiled text calls (``t_own(n, ..)``) a function of the session.

        Args:
            key: equal keys mean the same function, which is kept once.
            call: takes and gives storage values.
        """
        number = self._own.get(key)
        if number is None:
            number = self._own[key] = next(self._own_numbers)
            self._own_calls[number] = call
        return number

    def trim(self) -> None:
        """Between requests: forgets functions of the session when there are too many.

        They are of objects that may be gone long ago. Plans that call them are compiled again.
        """
        excess = len(self._own) - _OWN_MAX
        if excess <= 0:
            return
        self.plans.clear()
        self.sequence_values.clear()
        for key in list(islice(self._own, excess + _OWN_MAX // 2)):
            del self._own_calls[self._own.pop(key)]

    def compound(self, node: Node, make: Callable[[], Expression]) -> Expression:
        """The expression of ``SET @x += y``: one per statement, so that its plan is found again."""
        known = self._compound.get(node)
        if known is None:
            known = self._compound[node] = make()
            if len(self._compound) > _PLANS_MAX:
                self._compound.popitem(last=False)
        return known

    def lenient(self, text: str) -> str:
        """Compiled text whose arithmetic gives NULL for an error, which the connection learns."""
        if not self._is_lenient:
            register_lenient(self.connection, self.owed.add)
            self._is_lenient = True
        return lenient(text)

    def _null_eliminated(self, *arguments: Any) -> Any:
        """``t_null_eliminated([x])``: an aggregate left NULL out; x, or NULL."""
        self.owed.add(NULL_ELIMINATED)
        return arguments[0] if arguments else None

    def _call_own(self, *arguments: Any) -> Any:
        """``t_own(n, ..)``."""
        return self._own_calls[arguments[0]](*arguments[1:])

    def _get_variable(self, *arguments: Any) -> Any:
        """``t_get(name)``: a variable as it is now."""
        return None if self.frame is None else self.frame.values[arguments[0]]

    def _set_variable(self, *arguments: Any) -> Any:
        """``t_set(name, value)``."""
        name, value = arguments
        if self.frame is not None:
            self.frame.values[name] = value
        return value

    def _call_catalog(
        self, function: ScalarFunction, database: Database | None, *arguments: Any
    ) -> Any:
        """A function of the catalog, in the current database or the one that was named."""
        context = self.context
        if database is not None and database is not context.database:
            context = replace(context, database=database)
        return function.call(context, *arguments)

    def cached(self, node: Node, make: Callable[[], list[Any]]) -> list[Any]:
        """The plans of a statement in the current database, oldest thrown away first.

        They are the present identity's, whose permissions were checked when they were compiled, and
        of the present SET options.
        """
        context = self.context
        key = (node, context.database.name, context.security.identity, context.options.semantics)
        plans = self.plans.get(key)
        if plans is None:
            plans = self.plans[key] = make()
            if len(self.plans) > _PLANS_MAX:
                self.plans.popitem(last=False)
        else:
            self.plans.move_to_end(key)
        return plans

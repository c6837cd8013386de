"""Permission checks of statements as they are compiled, and ownership chains.

Inside a view, procedure, function or trigger, what belongs to the module's owner is not checked.
Anyone who may use the module may use it through the module. Dynamic text has no such chain, nor has
another database.

Plans are cached for an identity and the databases' versions, and every change of permissions is a
new version. So what was checked when a plan was compiled holds as long as the plan does.

https://learn.microsoft.com/sql/relational-databases/security/tutorial-ownership-chains-and-context-switching
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from tailrace_emulator.messages import column_denied, denied
from tailrace_emulator.messages.errors import SqlError
from tailrace_emulator.security.access import Securable, columns_matter, of_object, permits
from tailrace_emulator.security.tokens import SA_ID, principal_by_id

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext
    from tailrace_emulator.storage.catalog_state import Module
    from tailrace_emulator.storage.engine import Database
    from tailrace_emulator.storage.model import Column, Table
    from tailrace_emulator.tsql.compile.values import Views

Chain = tuple[int, int]
"""Database id and owner's principal id of the module whose text runs."""

PERMISSION_DENIED: Final = 229
OWNER: Final = "OWNER"
SELF: Final = "SELF"

Check = Callable[[], None]
"""Raises when a column may not be used."""


def chain_of(database: Database, module: Module) -> Chain:
    """The ownership chain that a module's text begins or continues with."""
    return database.database_id, of_object(database, module).owner


def require(
    context: SessionContext, chain: Chain | None, securable: Securable, permission: str
) -> None:
    """Check a permission on an object.

    Raises:
        SqlError: 229; 916 when the session may not enter the database.
    """
    if context.security.is_sysadmin or _is_chained(chain, securable):
        return
    if not permits(context.security.user(securable.database), securable, permission):
        raise _denied(securable, permission)


def _is_chained(chain: Chain | None, securable: Securable) -> bool:
    return chain == (securable.database.database_id, securable.owner)


def _denied(securable: Securable, permission: str) -> SqlError:
    return denied(permission, securable.name, securable.database.name, securable.schema)


@contextlib.contextmanager
def acting_as(
    context: SessionContext, database: Database, module: Module, clause: str | None
) -> Iterator[None]:
    """Run a module's text as its EXECUTE AS clause says.

    Args:
        module: a procedure, function or trigger.
        clause: OWNER, SELF or a user's name; None for the caller.

    Raises:
        SqlError: 15517 when the user is not there any more.
    """
    security = context.security
    depth = security.depth
    if clause is not None:
        name = clause
        if clause == SELF:
            name = "dbo"  # whoever else creates such a module is refused
        elif clause == OWNER:
            owner = principal_by_id(database, of_object(database, module).owner)
            name = owner.name if owner is not None else "dbo"
        security.execute_as_user(database, name, checked=False)
    try:
        yield
    finally:
        security.revert(depth)


class Changed(Protocol):
    """What a statement writes rows to: a table of ``database``, or one of the session's own."""

    @property
    def table(self) -> Table:
        """Its definition."""


class StatementAccess:
    """The checks of one statement that is being compiled."""

    def __init__(
        self, context: SessionContext, depend_on: Callable[[Database], None], chain: Chain | None
    ) -> None:
        """Begin.

        Args:
            depend_on: called with the databases whose next DDL ends what was checked.
            chain: the ownership chain of the text.
        """
        self._context = context
        self._depend_on = depend_on
        self.chain = chain
        """Changes while the text of a view is compiled."""
        self.reads = True
        """Whether reading is checked: not where a view is compiled to insert through it."""

    def _applies(self, securable: Securable) -> bool:
        """Whether anything is to be checked; the plan then depends on who is in which role."""
        security = self._context.security
        if security.is_sysadmin and security.identity.login_id == SA_ID:
            return False
        self._depend_on(self._context.engine.databases["master"])
        self._depend_on(securable.database)
        if security.is_sysadmin:
            return False
        return not _is_chained(self.chain, securable)

    def require(self, securable: Securable, permission: str) -> None:
        """Check a permission on a whole object.

        Raises:
            SqlError: 229 without the permission, 916 without access to the database.
        """
        if self._applies(securable):
            token = self._context.security.user(securable.database)
            if not permits(token, securable, permission):
                raise _denied(securable, permission)

    def read(
        self, securable: Securable, columns: Sequence[Column], *, is_target: bool = False
    ) -> dict[str, Check]:
        """Check that a table or view may be read.

        Args:
            securable: the table or view.
            is_target: it is the table that UPDATE or DELETE changes: reading it needs SELECT only
                where the statement names one of its columns.

        Returns:
            What each column, by name, has to pass when it is used; empty without such checks.

        Raises:
            SqlError: 229 when nothing of it may be read; 916.
        """
        if not self._applies(securable) or not self.reads:
            return {}
        token = self._context.security.user(securable.database)
        whole = permits(token, securable, "SELECT")
        if not columns_matter(token, securable):
            if whole:
                return {}
            if not is_target:
                raise _denied(securable, "SELECT")
            return dict.fromkeys((c.name for c in columns), _raising(_denied(securable, "SELECT")))
        allowed = {
            column.name: permits(token, securable.column(column.column_id), "SELECT")
            for column in columns
        }
        if not any(allowed.values()) and not is_target:
            raise _denied(securable, "SELECT")
        return {
            name: _raising(
                column_denied(
                    "SELECT", name, securable.name, securable.database.name, securable.schema
                )
            )
            for name, is_allowed in allowed.items()
            if not is_allowed
        }

    def masked(self, securable: Securable, columns: Sequence[Column]) -> dict[str, str]:
        """The masks of the columns that the session sees masked, by name.

        An ownership chain changes nothing: a view shows masks, too. EXECUTE AS does.

        https://learn.microsoft.com/sql/relational-databases/security/dynamic-data-masking
        """
        if not any(column.mask for column in columns):
            return {}
        outer, self.chain = self.chain, None
        try:
            if not self._applies(securable):
                return {}
        finally:
            self.chain = outer
        token = self._context.security.user(securable.database)
        return {
            column.name: column.mask
            for column in columns
            if column.mask and not permits(token, securable.column(column.column_id), "UNMASK")
        }

    def read_view(
        self, database: Database, module: Module, *, is_target: bool = False
    ) -> Check | None:
        """Check that a view may be read.

        Args:
            is_target: it is the view that a statement changes rows through, which needs SELECT
                only where the statement names one of its columns.

        Returns:
            What each of its columns has to pass when it is used; None without such a check.

        Raises:
            SqlError: 229 without the permission, 916 without access to the database.
        """
        try:
            if self.reads:
                self.require(of_object(database, module), "SELECT")
        except SqlError as error:
            if not is_target or error.number != PERMISSION_DENIED:
                raise
            return _raising(error)
        return None

    def change_through(
        self,
        views: Views,
        target: Changed,
        permission: str,
        columns: Sequence[Column] = (),
    ) -> None:
        """Check that a statement may change a table that it reaches through views.

        Each view is asked for, and what is beneath only where its owner is another one.

        Args:
            views: the outermost first; none where the statement names the table.
            permission: INSERT, UPDATE or DELETE.
            columns: those of the table that UPDATE sets.

        Raises:
            SqlError: 229 or 230 without the permission, 916 without access to the database.
        """
        with self.within(views, permission):
            self.change(target, permission, columns)

    def read_changed(self, views: Views, target: Changed) -> None:
        """Check that OUTPUT may show a table that a statement changes, perhaps through views.

        Raises:
            SqlError: 229 without the permission, 916 without access to the database.
        """
        database = getattr(target, "database", None)
        if database is not None:
            with self.within(views, "SELECT"):
                self.read(of_object(database, target.table), target.table.columns)

    @contextlib.contextmanager
    def within(self, views: Views, permission: str = "") -> Iterator[None]:
        """Continue in the ownership chain of the innermost of views within each other.

        Args:
            views: in order, the outermost first.
            permission: what is checked on each; nothing where it is empty.

        Raises:
            SqlError: 229 without the permission, 916 without access to the database.
        """
        outer = self.chain
        try:
            for database, module in views:
                if permission:
                    self.require(of_object(database, module), permission)
                self.chain = chain_of(database, module)
            yield
        finally:
            self.chain = outer

    def change(self, target: Changed, permission: str, columns: Sequence[Column] = ()) -> None:
        """Check that a statement may change a table; temporary tables are always one's own.

        Args:
            permission: INSERT, UPDATE or DELETE.
            columns: those that UPDATE sets.

        Raises:
            SqlError: 229 or 230 without the permission, 916 without access to the database.
        """
        database = getattr(target, "database", None)
        if database is None:
            return
        securable = of_object(database, target.table)
        if not self._applies(securable):
            return
        token = self._context.security.user(database)
        if permits(token, securable, permission) and not (
            columns and columns_matter(token, securable)
        ):
            return
        if not columns or not columns_matter(token, securable):
            raise _denied(securable, permission)
        refused = [
            c for c in columns if not permits(token, securable.column(c.column_id), permission)
        ]
        if len(refused) == len(columns) and not permits(token, securable, permission):
            named = any(
                permits(token, securable.column(c.column_id), permission)
                for c in target.table.columns
            )
            if not named:
                raise _denied(securable, permission)
        if refused:
            raise column_denied(
                permission, refused[0].name, securable.name, database.name, securable.schema
            )


def _raising(error: SqlError) -> Check:
    def check() -> None:
        raise error

    return check


__all__ = ["Chain", "Check", "StatementAccess", "chain_of", "require"]

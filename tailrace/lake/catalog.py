"""The catalog of a lake in Iceberg, as pyiceberg opens it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

from tailrace.lake.errors import NeedsSpark, from_extra
from tailrace_sink.errors import (
    CatalogUnavailable,
    CatalogUnusable,
    ConfigError,
    SinkError,
)
from tailrace_sink.iceberg.names import PLACE_PROPERTY, TableId, require_place
from tailrace_sink.options.s3_options import hadoop_address

if TYPE_CHECKING:
    from tailrace.lake.store import LakeStore
    from tailrace_sink.options.iceberg_options import IcebergOptions

_ANSWER_S: Final = 60.0
"""Seconds within which the catalog must answer; pyiceberg waits without a limit."""
_T = TypeVar("_T")


class Catalog:
    """The catalog of a lake's tables. It opens with the first table, and once.

    Args:
        options: None: pyiceberg's own configuration describes the catalog.
        namespace: of a table, from {database} and {schema}.
    """

    def __init__(
        self, store: LakeStore, options: IcebergOptions | None, catalog: str, namespace: str
    ) -> None:
        self.store = store
        self.name = catalog
        self._options = options
        self._namespace = namespace
        self._opened: Any = None

    def table(self, path: str) -> Any:
        """Load the newest metadata of a table; None if there is no such table.

        Args:
            path: of the table below the lake.

        Returns:
            A table of pyiceberg, which opens its files with the options of the lake's store.

        Raises:
            ExtraMissing: pyiceberg is not installed.
            CatalogUnavailable, CatalogUnusable, ConfigError, NeedsSpark, NameTaken: see
                ``Cut.read``.
        """
        with from_extra("iceberg"):
            from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError
            from pyiceberg.io.pyarrow import PyArrowFileIO

        name = TableId.at(path, self._namespace)
        opened = self._open()

        def load() -> Any:
            try:
                return opened.load_table((*name.namespace, name.name))
            except (NoSuchTableError, NoSuchNamespaceError):
                return None

        found = self._answer(f"loading table {name}", load)
        if found is None:
            return None
        lake = hadoop_address(self.store.lake)
        require_place(found.properties.get(PLACE_PROPERTY), lake, path, f"{self.name}.{name}")
        if self.store.s3 is not None:
            found.io = PyArrowFileIO(self.store.s3.pyiceberg())
        return found

    def _open(self) -> Any:
        if self._opened is None:
            from pyiceberg.catalog import load_catalog

            properties = self._properties()
            self._opened = self._answer("opening it", lambda: load_catalog(self.name, **properties))
        return self._opened

    def _properties(self) -> dict[str, Any]:
        """Return the properties of the catalog.

        Raises:
            ConfigError: nothing is known of it, or the file of a secret cannot be read.
            NeedsSpark: its tables are found by their files.
        """
        from pyiceberg.utils.config import Config

        if self._options is None:
            known = Config().get_catalog_config(self.name)
            if not known:
                raise ConfigError(
                    [
                        f"lake {self.store.lake} has tables in the Iceberg catalog {self.name}, of"
                        " which nothing is known here. Fix: pass its options, as in sink.iceberg:"
                        ' tailrace.lake.open(..., iceberg={"uri": ..., "warehouse": ...}), or'
                        f" describe the catalog {self.name} in ~/.pyiceberg.yaml"
                    ]
                )
            return dict(known)
        if self._options.uri is None:
            raise NeedsSpark(
                f"lake {self.store.lake}",
                "its tables are in a Hadoop catalog (sink.iceberg has no uri), which pyiceberg"
                " does not open",
            )
        return self._options.pyiceberg()

    def _answer(self, step: str, ask: Callable[[], _T]) -> _T:
        """Wait for an answer of the catalog, within a bound.

        Raises:
            CatalogUnavailable, CatalogUnusable: there is none, or it is a refusal.
        """
        answers: list[_T] = []
        failures: list[BaseException] = []

        def run() -> None:
            try:
                answers.append(ask())
            except BaseException as error:  # noqa: BLE001 - raised by the thread that waits
                failures.append(error)

        # A thread that still waits must not keep the process from its end.
        thread = threading.Thread(target=run, name="iceberg-catalog", daemon=True)
        thread.start()
        thread.join(_ANSWER_S)
        if answers:
            return answers[0]
        if not failures:
            raise CatalogUnavailable(self.name, step, f"none within {_ANSWER_S:g} s")
        raise self._failure(step, failures[0]) from failures[0]

    def _failure(self, step: str, error: BaseException) -> SinkError | BaseException:
        """Translate an error of pyiceberg or of its HTTP client; others stay."""
        from pyiceberg import exceptions as of
        from requests.exceptions import ConnectionError as Unreachable
        from requests.exceptions import RequestException, Timeout

        reason = " ".join(str(error).split())
        denied = (of.UnauthorizedError, of.ForbiddenError, of.OAuthError)
        if isinstance(error, (*denied, of.AuthorizationExpiredError)):
            return CatalogUnusable(
                self.name,
                f"it refused {step} ({reason})",
                "check the credential or token among the catalog's options, and its rights there",
            )
        busy = (of.ServerError, of.ServiceUnavailableError, of.TooManyRequestsError)
        if isinstance(error, (*busy, Unreachable, Timeout)):
            return CatalogUnavailable(self.name, step, reason)
        others = (of.RESTError, of.NotInstalledError, RequestException, ValueError)
        if isinstance(error, others):
            return CatalogUnusable(
                self.name, f"{step} failed ({reason})", "check the options of the catalog"
            )
        return error

"""What kind of server it is, where statements and rights differ by version and edition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tailrace_publisher.ports import Connection

AZURE_DATABASE: Final = 5
MANAGED_INSTANCE: Final = 8
FABRIC: Final = 12
"""SQL database in Microsoft Fabric."""
_FIRST_WITH_PERFORMANCE_STATE: Final = 16
"""SQL Server 2022, whose VIEW SERVER STATE also covers the narrower right."""


@dataclass(frozen=True, slots=True)
class ServerKind:
    """Version and edition of a server.

    Attributes:
        edition: SERVERPROPERTY('EngineEdition'): 5, 8 and 12 are Microsoft's services.
        major: SERVERPROPERTY('ProductMajorVersion'): 16 is SQL Server 2022; 0 if not reported.
        is_rds: whether it is Amazon RDS.
    """

    edition: int
    major: int
    is_rds: bool = False

    @property
    def is_single_database(self) -> bool:
        """Whether a connection sees one database only: no msdb, no USE, no rights on a server."""
        return self.edition in {AZURE_DATABASE, FABRIC}

    @property
    def is_managed(self) -> bool:
        """Whether Microsoft runs what captures: an Agent or a scheduler."""
        return self.is_single_database or self.edition == MANAGED_INSTANCE

    @property
    def log_right(self) -> str:
        """The permission to see the log's end and use, and the free space of volumes.

        See: sys.dm_db_log_stats, sys.dm_db_log_space_usage and sys.dm_os_volume_stats
        (Transact-SQL), permissions. Inferred: in Azure SQL Database the first requires what the
        second does. In a Managed Instance both require the right of SQL Server 2022.
        """
        if self.is_single_database:
            return "VIEW DATABASE STATE"
        if self.edition == MANAGED_INSTANCE or self.major >= _FIRST_WITH_PERFORMANCE_STATE:
            return "VIEW SERVER PERFORMANCE STATE"
        return "VIEW SERVER STATE"

    @property
    def services_right(self) -> str:
        """The permission to see the services of the server.

        See: sys.dm_server_services (Transact-SQL), permissions, by version.
        """
        if self.major >= _FIRST_WITH_PERFORMANCE_STATE:
            return "VIEW SERVER SECURITY STATE"
        return "VIEW SERVER STATE"

    def grant_log_right(self, user: str) -> str:
        """Return the statement that grants :attr:`log_right` to a quoted user.

        See: GRANT Server Permissions (Transact-SQL), which are granted in master.
        """
        of_server = "" if self.is_single_database else "USE master; "
        return f"{of_server}GRANT {self.log_right} TO {user}"


def server_kind(connection: Connection) -> ServerKind:
    """Return the kind of a server.

    See: SERVERPROPERTY (Transact-SQL); DB_ID (Transact-SQL): NULL for a database that is not there
    or, in Azure SQL Database, for any other than the current one. Amazon RDS keeps a database
    rdsadmin in each instance.

    Raises:
        SourceError: the server did not answer.
    """
    ((edition, major, rdsadmin),) = connection.query(
        "SELECT CAST(SERVERPROPERTY('EngineEdition') AS int),"
        " CAST(SERVERPROPERTY('ProductMajorVersion') AS int), DB_ID(N'rdsadmin')"
    )
    return ServerKind(int(edition), int(major or 0), rdsadmin is not None)

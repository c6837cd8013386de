"""What the procedures of one's own jobs share: which job, what is refused, and how it is kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from tailrace_emulator import messages
from tailrace_emulator.catalog.procedure_registry import (
    Arguments,
    ProcedureParameter,
    text,
)
from tailrace_emulator.cdc.log_readers import all_jobs, job_name
from tailrace_emulator.cdc.own_jobs import (
    OwnJob,
    own_jobs,
    put_job,
)
from tailrace_emulator.cdc.surface.transactions import as_ddl
from tailrace_emulator.messages.errors import SqlError, not_supported
from tailrace_emulator.values.types import (
    SYSNAME,
    UNIQUEIDENTIFIER,
    StorageValue,
    unpack_guid,
)

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext

_P = ProcedureParameter
WHICH_JOB: Final = (_P("@job_id", UNIQUEIDENTIFIER, None), _P("@job_name", SYSNAME, None))
"""Parameters that name a job."""


def find_own_job(context: SessionContext, args: Arguments, procedure_name: str) -> OwnJob:
    """The job that @job_name or @job_id means.

    Raises:
        SqlError: 14262 or 14294; 50900 for a job that is not one's own.
    """
    name, raw = text(args["@job_name"]), args["@job_id"]
    if (name is None) == (raw is None):
        raise messages.error(14294, "@job_id", "@job_name", procedure="sp_verify_job_identifiers")
    wanted = str(unpack_guid(raw)) if isinstance(raw, bytes) else ""
    folded = (name or "").casefold()
    for job in own_jobs(context.engine):
        if job.job_id == wanted or job.name.casefold() == folded:
            return job
    for database, other in all_jobs(context.store.connection, context.engine):
        known = job_name(database, other.job_type)
        if str(other.job_id) == wanted or known.casefold() == folded:
            raise not_supported(
                f"{procedure_name} of the job {known} (sp_update_job @enabled = 0 disables it, and"
                " a job of one's own can take its place)"
            )
    raise messages.error(14262, name or wanted, procedure="sp_verify_job_identifiers")


def refuse_but_defaults(
    procedure_name: str, args: Arguments, defaults: Mapping[str, StorageValue]
) -> None:
    """Refuses parameters of which nothing but the default is there."""
    for name, default in defaults.items():
        if args[name] is not None and args[name] != default:
            raise not_supported(f"{name} = {args[name]!r} of {procedure_name}")


def store_job(context: SessionContext, job: OwnJob, **changed: Any) -> None:
    """Stores a job with what has changed."""
    made = replace(job, **changed, modified=context.engine.clock.now_ticks())

    def store() -> None:
        with context.engine.write() as connection:
            put_job(connection, context.engine.database("msdb"), made)

    as_ddl(context, store)


def invalid_value(name: str, procedure_name: str) -> SqlError:
    """Error 14266: a parameter has a value that is none of its own."""
    return messages.error(14266, name, procedure=procedure_name)

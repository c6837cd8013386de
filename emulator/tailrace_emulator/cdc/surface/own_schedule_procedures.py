"""msdb.dbo.sp_add_jobschedule and sp_update_schedule: when jobs of one's own run.

https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/sp-add-jobschedule-transact-sql
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from tailrace_emulator import messages
from tailrace_emulator.catalog.procedure_registry import (
    Arguments,
    ProcedureParameter,
    integer,
    text,
)
from tailrace_emulator.cdc.own_jobs import (
    AT_TIME,
    DAILY,
    FREQUENCIES,
    SUBDAY_TYPES,
    Schedule,
    own_jobs,
    today,
)
from tailrace_emulator.cdc.surface.declarations import procedure
from tailrace_emulator.cdc.surface.own_job_arguments import (
    WHICH_JOB,
    find_own_job,
    invalid_value,
    refuse_but_defaults,
    store_job,
)
from tailrace_emulator.messages.errors import not_supported
from tailrace_emulator.values.results import Event
from tailrace_emulator.values.types import (
    INT,
    SYSNAME,
    TINYINT,
    UNIQUEIDENTIFIER,
)

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext

_P = ProcedureParameter
_LAST_DAY: Final = 99_991_231
_LAST_SECOND: Final = 235_959
_SHIPPED: Final = frozenset({"cdc capture agent schedule.", "cdc cleanup agent schedule."})
_TIMES: Final = (
    _P("@enabled", TINYINT, None),
    _P("@freq_type", INT, None),
    _P("@freq_interval", INT, None),
    _P("@freq_subday_type", INT, None),
    _P("@freq_subday_interval", INT, None),
    _P("@freq_relative_interval", INT, None),
    _P("@freq_recurrence_factor", INT, None),
    _P("@active_start_date", INT, None),
    _P("@active_end_date", INT, None),
    _P("@active_start_time", INT, None),
    _P("@active_end_time", INT, None),
)


def _schedule(args: Arguments, before: Schedule, name: str, procedure_name: str) -> Schedule:
    """A schedule with what the arguments say of it.

    Raises:
        SqlError: 50900 for weekly, monthly and idle schedules; 14266 for values that are none.
    """
    refuse_but_defaults(procedure_name, args, {"@freq_relative_interval": 0})

    def given(parameter: str, old: int) -> int:
        value = integer(args[parameter])
        return old if value is None else value

    made = Schedule(
        name,
        bool(given("@enabled", int(before.enabled))),
        given("@freq_type", before.freq_type),
        given("@freq_interval", before.freq_interval),
        # 0 is what a schedule that runs once is scripted with.
        given("@freq_subday_type", before.subday_type) or AT_TIME,
        given("@freq_subday_interval", before.subday_interval),
        given("@active_start_date", before.start_date),
        given("@active_end_date", before.end_date),
        given("@active_start_time", before.start_time),
        given("@active_end_time", before.end_time),
    )
    if made.freq_type not in FREQUENCIES:
        raise not_supported(f"@freq_type = {made.freq_type} of {procedure_name}")
    if made.subday_type not in SUBDAY_TYPES:
        raise invalid_value("@freq_subday_type", procedure_name)
    if made.freq_type == DAILY and made.freq_interval < 1:
        raise invalid_value("@freq_interval", procedure_name)
    if made.subday_type != AT_TIME and made.subday_interval < 1:
        raise invalid_value("@freq_subday_interval", procedure_name)
    try:
        made.next_due(0)
    except ValueError as error:
        raise invalid_value("@active_start_date", procedure_name) from error
    return made


@procedure(
    "sp_add_jobschedule",
    *WHICH_JOB,
    _P("@name", SYSNAME),
    *_TIMES,
    _P("@schedule_id", INT, None, output=True),
    _P("@automatic_post", INT, 1),
    _P("@schedule_uid", UNIQUEIDENTIFIER, None, output=True),
    in_msdb=True,
)
def _add_jobschedule(context: SessionContext, args: Arguments) -> Iterator[Event]:
    job = find_own_job(context, args, "sp_add_jobschedule")
    if job.schedule is not None:
        raise not_supported("several schedules of a job")
    now = today(context.engine.clock.now_ticks())
    empty = Schedule("", True, 1, 0, AT_TIME, 0, now, _LAST_DAY, 0, _LAST_SECOND)
    name = text(args["@name"]) or ""
    store_job(context, job, schedule=_schedule(args, empty, name, "sp_add_jobschedule"))
    yield from ()


@procedure(
    "sp_update_schedule",
    _P("@schedule_id", INT, None),
    _P("@name", SYSNAME, None),
    _P("@new_name", SYSNAME, None),
    *_TIMES,
    _P("@owner_login_name", SYSNAME, None),
    _P("@automatic_post", INT, 1),
    in_msdb=True,
)
def _update_schedule(context: SessionContext, args: Arguments) -> Iterator[Event]:
    """Changes a schedule, by its name."""
    name = text(args["@name"])
    if name is None:
        raise not_supported("sp_update_schedule by @schedule_id (give @name)")
    folded = name.casefold()
    found = [
        (job, job.schedule)
        for job in own_jobs(context.engine)
        if job.schedule is not None and job.schedule.name.casefold() == folded
    ]
    if folded in _SHIPPED:
        raise not_supported("sp_update_schedule of the jobs of change data capture")
    if len(found) != 1:
        raise messages.error(14371 if found else 14262, name, procedure="sp_update_schedule")
    ((job, schedule),) = found
    new_name = text(args["@new_name"]) or schedule.name
    store_job(context, job, schedule=_schedule(args, schedule, new_name, "sp_update_schedule"))
    yield from ()

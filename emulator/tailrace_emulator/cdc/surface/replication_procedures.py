"""sp_replicationdboption, sp_addpublication and their like: what decides who reads the log.

https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/replication-stored-procedures-transact-sql
Parameters that would say how changes reach subscribers are accepted and have no effect: there are
no subscribers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

from tailrace_emulator import messages
from tailrace_emulator.catalog.procedure_registry import (
    Arguments,
    ProcedureParameter,
    result_set,
    text,
)
from tailrace_emulator.cdc import jobs, replication
from tailrace_emulator.cdc.capture_instance import is_enabled
from tailrace_emulator.cdc.log_readers import change_publications
from tailrace_emulator.cdc.replication import Article, Publication
from tailrace_emulator.cdc.runtime import runtime
from tailrace_emulator.cdc.surface.declarations import DECLARED, procedure
from tailrace_emulator.messages.errors import not_supported
from tailrace_emulator.storage.engine import Database
from tailrace_emulator.values.results import Event, Message
from tailrace_emulator.values.types import INT, MAX, SYSNAME, nvarchar

if TYPE_CHECKING:
    import apsw

    from tailrace_emulator.catalog.context import SessionContext

_P = ProcedureParameter
_EXTENDED: Final = ("sp_repldone", "sp_replcmds", "sp_repltrans", "sp_replflush")
"""Extended procedures in SQL Server."""


def _ignored(names: str) -> tuple[ProcedureParameter, ...]:
    return tuple(_P(f"@{name}", nvarchar(MAX), None) for name in names.split())


def _changed(
    context: SessionContext, database: Database, change: Callable[[apsw.Connection], None]
) -> Iterator[Event]:
    for started in change_publications(context.engine, database, change):
        yield Message(jobs.JOB_STARTED, started)


def _name(args: Arguments, parameter: str) -> str:
    name = (text(args[parameter]) or "").strip()
    if not name:
        raise messages.error(14043, parameter)
    return name


@procedure(
    "sp_replicationdboption",
    _P("@dbname", SYSNAME),
    _P("@optname", SYSNAME),
    _P("@value", SYSNAME),
    _P("@ignore_distributor", INT, 0),
    _P("@from_scripting", INT, 0),
)
def _replication_option(context: SessionContext, args: Arguments) -> Iterator[Event]:
    database = context.engine.database(_name(args, "@dbname"))
    option = _name(args, "@optname").casefold()
    value = _name(args, "@value").casefold()
    if option != "publish":
        raise not_supported(f"sp_replicationdboption @optname = '{option}'")
    if value not in {"true", "false"}:
        raise messages.error(14137)

    def change(connection: apsw.Connection) -> None:
        replication.set_published(connection, database, published=value == "true")

    yield from _changed(context, database, change)


@procedure(
    "sp_addpublication",
    _P("@publication", SYSNAME),
    _P("@taskid", INT, 0),
    _P("@restricted", nvarchar(10), "false"),
    _P("@sync_method", nvarchar(40), None),
    _P("@repl_freq", nvarchar(10), replication.CONTINUOUS),
    _P("@description", nvarchar(255), None),
    _P("@status", nvarchar(8), "inactive"),
    *_ignored(
        "independent_agent immediate_sync enabled_for_internet allow_push allow_pull"
        " allow_anonymous allow_sync_tran autogen_sync_procs retention allow_queued_tran"
        " snapshot_in_defaultfolder alt_snapshot_folder pre_snapshot_script post_snapshot_script"
        " compress_snapshot ftp_address ftp_port ftp_subdirectory ftp_login ftp_password"
        " allow_dts allow_subscription_copy conflict_policy centralized_conflicts"
        " conflict_retention queue_type add_to_active_directory logreader_job_name"
        " qreader_job_name publisher allow_initialize_from_backup replicate_ddl enabled_for_p2p"
        " publish_local_changes_only enabled_for_het_sub p2p_conflictdetection p2p_originator_id"
        " p2p_continue_onconflict allow_partition_switch replicate_partition_switch"
    ),
)
def _add_publication(context: SessionContext, args: Arguments) -> Iterator[Event]:
    frequency = (text(args["@repl_freq"]) or replication.CONTINUOUS).casefold()
    if frequency not in {replication.CONTINUOUS, "snapshot"}:
        raise messages.error(14026)
    made = Publication(_name(args, "@publication"), frequency, text(args["@description"]) or "")
    change = partial(replication.add_publication, database=context.database, publication=made)
    yield from _changed(context, context.database, change)


@procedure(
    "sp_droppublication",
    _P("@publication", SYSNAME),
    _P("@ignore_distributor", INT, 0),
    *_ignored("publisher from_backup"),
)
def _drop_publication(context: SessionContext, args: Arguments) -> Iterator[Event]:
    change = partial(
        replication.drop_publication,
        database=context.database,
        name=_name(args, "@publication"),
    )
    yield from _changed(context, context.database, change)


@procedure(
    "sp_addarticle",
    _P("@publication", SYSNAME),
    _P("@article", SYSNAME),
    _P("@source_table", nvarchar(386), None),
    *_ignored(
        "destination_table vertical_partition type filter sync_object ins_cmd del_cmd upd_cmd"
        " creation_script description pre_creation_cmd filter_clause schema_option"
        " destination_owner status"
    ),
    _P("@source_owner", SYSNAME, None),
    _P("@sync_object_owner", SYSNAME, None),
    _P("@filter_owner", SYSNAME, None),
    _P("@source_object", SYSNAME, None),
    *_ignored(
        "artid auto_identity_range pub_identity_range identity_range threshold"
        " force_invalidate_snapshot use_default_datatypes identityrangemanagementoption publisher"
        " fire_triggers_on_snapshot"
    ),
)
def _add_article(context: SessionContext, args: Arguments) -> Iterator[Event]:
    database = context.database
    name = text(args["@source_object"]) or text(args["@source_table"]) or _name(args, "@article")
    table = database.table(text(args["@source_owner"]) or "dbo", name)
    if table is None or table.is_ms_shipped:
        raise messages.error(15001, name)
    change = partial(
        replication.add_article,
        database=database,
        publication=_name(args, "@publication"),
        article=Article(_name(args, "@article"), table.object_id),
    )
    yield from _changed(context, database, change)


@procedure(
    "sp_droparticle",
    _P("@publication", SYSNAME),
    _P("@article", SYSNAME),
    _P("@ignore_distributor", INT, 0),
    *_ignored("force_invalidate_snapshot publisher from_drop_publication"),
)
def _drop_article(context: SessionContext, args: Arguments) -> Iterator[Event]:
    change = partial(
        replication.drop_article,
        database=context.database,
        publication=_name(args, "@publication"),
        name=_name(args, "@article"),
    )
    yield from _changed(context, context.database, change)


@procedure("sp_helppublication", _P("@publication", SYSNAME, "%"), *_ignored("found publisher"))
def _help_publication(context: SessionContext, args: Arguments) -> Iterator[Event]:
    """A part of the documented columns: what is kept of a publication."""
    wanted = (text(args["@publication"]) or "%").casefold()
    yield from result_set(
        "pubid int!, name sysname!, status tinyint!, replication_frequency tinyint!,"
        " description nvarchar(255)",
        (
            (number, p.name, 1, int(p.frequency != replication.CONTINUOUS), p.description)
            for number, p in enumerate(replication.publications(context.database), 1)
            if wanted in {"%", p.name.casefold()}
        ),
    )


@procedure("sp_addlogreader_agent", *_ignored(
    "job_login job_password job_name publisher_security_mode publisher_login publisher_password"
    " publisher"
))  # fmt: skip
def _add_log_reader_agent(_context: SessionContext, _args: Arguments) -> Iterator[Event]:
    """The first transactional publication makes the agent; its account has no meaning here."""
    yield from ()


def _of_the_log(name: str) -> Callable[[SessionContext, Arguments], Iterator[Event]]:
    """One of the procedures by which SQL Server's own agents read the log."""

    def answer(context: SessionContext, _args: Arguments) -> Iterator[Event]:
        database = context.database
        if not (is_enabled(database) or replication.is_published(database)):
            raise messages.error(18757, procedure=name)
        if name == "sp_replflush":
            yield from ()
            return  # no session here ever holds the log from one request to the next
        with runtime(context.engine).scanning(database, context.session_id, taken=18752):
            raise not_supported(
                f"{name} (the log is read by the capture job or the Log Reader Agent)"
            )

    return answer


for _procedure in (*_EXTENDED, "sp_replshowcmds"):
    procedure(
        _procedure,
        *_ignored("xactid xact_segno numtrans time reset maxtrans maxcmds seqno_start"),
    )(_of_the_log(_procedure))
for _procedure in _EXTENDED:
    DECLARED.routines.register(_procedure, "X")

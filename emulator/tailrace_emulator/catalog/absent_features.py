"""Views of features that the embedded server refuses: they exist, and are empty.

Tools join them to what they list; an unknown name would fail the whole query, and no row is the
truth.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from tailrace_emulator.catalog.registry import Columns, Row, view
from tailrace_emulator.catalog.type_facts import type_facts
from tailrace_emulator.catalog.type_views import SYS_SCHEMA_ID
from tailrace_emulator.storage.values import days_of
from tailrace_emulator.values.tds_types import assembly_name
from tailrace_emulator.values.types import GEOGRAPHY, GEOMETRY, HIERARCHYID, TICKS_PER_DAY

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext
    from tailrace_emulator.storage.engine import Database

_EMPTY: Final = {
    "sys.assembly_modules": """object_id int!, assembly_id int!, assembly_class sysname,
 assembly_method sysname, null_on_null_input bit, execute_as_principal_id int""",
    "sys.availability_groups": """group_id uniqueidentifier!, name sysname""",
    "sys.change_tracking_databases": """database_id int!, is_auto_cleanup_on bit,
 retention_period int, retention_period_units tinyint, retention_period_units_desc nvarchar(60),
 max_cleanup_version bigint""",
    "sys.change_tracking_tables": """object_id int!, is_track_columns_updated_on bit!,
 min_valid_version bigint, begin_version bigint, cleanup_version bigint""",
    "sys.external_data_sources": "data_source_id int!, name sysname!, location nvarchar(4000)!",
    "sys.external_file_formats": "file_format_id int!, name sysname!",
    "sys.external_tables": """name sysname!, object_id int!, principal_id int, schema_id int!,
 data_source_id int!, file_format_id int""",
    "sys.fulltext_catalogs": """fulltext_catalog_id int!, name sysname!, path nvarchar(260),
 is_default bit!, is_accent_sensitivity_on bit!""",
    "sys.fulltext_indexes": """object_id int!, unique_index_id int!, fulltext_catalog_id int,
 is_enabled bit!, change_tracking_state char(1)""",
    "sys.fulltext_index_columns": """object_id int!, column_id int!, type_column_id int,
 language_id int!, statistical_semantics int!""",
    "sys.hash_indexes": """object_id int!, name sysname, index_id int!, type tinyint!,
 type_desc nvarchar(60), bucket_count int!""",
    "sys.numbered_procedures": """object_id int!, procedure_number smallint,
 definition nvarchar(max)""",
    "sys.partition_parameters": """function_id int!, parameter_id int!, system_type_id tinyint!,
 max_length smallint!, precision tinyint!, scale tinyint!, collation_name sysname,
 user_type_id int!""",
    "sys.periods": """name sysname, period_type tinyint, period_type_desc nvarchar(60),
 object_id int!, start_column_id int!, end_column_id int!""",
    "sys.plan_guides": "plan_guide_id int!, name sysname!, is_disabled bit!",
    "sys.security_policies": """name sysname!, object_id int!, principal_id int, schema_id int!,
 is_enabled bit!""",
    "sys.security_predicates": """object_id int!, security_predicate_id int!,
 target_object_id int!, predicate_definition nvarchar(max)!, predicate_type int,
 predicate_type_desc nvarchar(60), operation int, operation_desc nvarchar(60)""",
    "sys.spatial_indexes": """object_id int!, name sysname, index_id int!, type tinyint!,
 type_desc nvarchar(60), spatial_index_type tinyint, tessellation_scheme sysname""",
    "sys.sensitivity_classifications": """class int!, major_id int!, minor_id int!,
 label nvarchar(4000), information_type nvarchar(4000)""",
    "sys.symmetric_keys": "name sysname!, principal_id int, symmetric_key_id int!",
    "sys.certificates": "name sysname!, certificate_id int!, principal_id int",
    "sys.asymmetric_keys": "name sysname!, principal_id int, asymmetric_key_id int!",
    "sys.column_master_keys": "name sysname!, column_master_key_id int!",
    "sys.column_encryption_keys": "name sysname!, column_encryption_key_id int!",
    "sys.xml_indexes": """object_id int!, name sysname, index_id int!, type tinyint!,
 type_desc nvarchar(60), using_xml_index_id int, secondary_type char(1),
 secondary_type_desc nvarchar(60), xml_index_type tinyint, path_id int""",
    "sys.column_xml_schema_collection_usages": """object_id int!, column_id int!,
 xml_collection_id int!""",
}
"""Columns by name; of wide views, those that lists of objects use."""


def _nothing(_context: SessionContext, _database: Database) -> tuple[Row, ...]:
    return ()


for _name, _columns in _EMPTY.items():
    view(_name, _columns)(_nothing)


# SQL Server's own CLR types ---------------------------------------------------------------------

_ASSEMBLIES: Final = Columns(
    """name sysname!, principal_id int, assembly_id int!, clr_name nvarchar(4000),
 permission_set tinyint, permission_set_desc nvarchar(60), is_visible bit!, create_date datetime!,
 modify_date datetime!, is_user_defined bit"""
)
_ASSEMBLY_TYPES: Final = Columns(
    """name sysname!, system_type_id tinyint!, user_type_id int!,
 schema_id int!, principal_id int, max_length smallint!, precision tinyint!, scale tinyint!,
 collation_name sysname, is_nullable bit, is_user_defined bit!, is_assembly_type bit!,
 default_object_id int!, rule_object_id int!, assembly_id int!, assembly_class sysname,
 is_binary_ordered bit, is_fixed_length bit, prog_id nvarchar(40),
 assembly_qualified_name nvarchar(4000), is_table_type bit!"""
)
_ASSEMBLY_ID: Final = 1
_CREATED: Final = days_of(datetime.date(2003, 4, 8)) * TICKS_PER_DAY


@view("sys.assemblies", _ASSEMBLIES)
def _assemblies(_context: SessionContext, _database: Database) -> Iterator[Row]:
    yield _ASSEMBLIES.row(
        name="Microsoft.SqlServer.Types",
        principal_id=4,
        assembly_id=_ASSEMBLY_ID,
        clr_name="microsoft.sqlserver.types, version=11.0.0.0, culture=neutral,"
        " publickeytoken=89845dcd8080cc91, processorarchitecture=msil",
        permission_set=3,
        permission_set_desc="UNSAFE_ACCESS",
        is_visible=1,
        create_date=_CREATED,
        modify_date=_CREATED,
        is_user_defined=0,
    )


@view("sys.assembly_types", _ASSEMBLY_TYPES)
def _assembly_types(_context: SessionContext, _database: Database) -> Iterator[Row]:
    for clr in (HIERARCHYID, GEOMETRY, GEOGRAPHY):
        facts = type_facts(clr)
        qualified = assembly_name(clr.name)
        yield _ASSEMBLY_TYPES.row(
            name=clr.name,
            system_type_id=facts.system_type_id,
            user_type_id=facts.user_type_id,
            schema_id=SYS_SCHEMA_ID,
            max_length=facts.max_length,
            precision=0,
            scale=0,
            is_nullable=1,
            is_user_defined=0,
            is_assembly_type=1,
            default_object_id=0,
            rule_object_id=0,
            assembly_id=_ASSEMBLY_ID,
            assembly_class=qualified.split(",")[0],
            is_binary_ordered=int(clr is HIERARCHYID),
            is_fixed_length=0,
            assembly_qualified_name=qualified,
            is_table_type=0,
        )

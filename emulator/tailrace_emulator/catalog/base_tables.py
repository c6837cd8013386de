"""The system base tables: objects of type S, which sys.objects, sysobjects and sys.columns list.

Only they are listed: their rows are not there, and SQL Server shows them to its administrators
alone (over the dedicated connection).

https://learn.microsoft.com/sql/relational-databases/system-tables/system-base-tables
"""

from __future__ import annotations

from functools import cache
from typing import Final

from tailrace_emulator.catalog.registry import parse_columns
from tailrace_emulator.catalog.relations import Relation
from tailrace_emulator.storage.model import Column

BASE_TABLE_ID_MAX: Final = 100
"""Objects of users have greater ids."""

_TABLES: Final = {
    (3, "sysrscols"): """rsid bigint!, rscolid int!, hbcolid int!, rcmodified bigint!, ti int!,
 cid int!, ordkey smallint!, maxinrowlen smallint!, status int!, offset int!, nullbit int!,
 bitpos smallint!, colguid varbinary(16), ordlock int!""",
    (5, "sysrowsets"): """rowsetid bigint!, ownertype tinyint!, idmajor int!, idminor int!,
 numpart int!, status int!, fgidfs smallint!, rcrows bigint!, cmprlevel tinyint!,
 fillfact tinyint!, maxnullbit smallint!, maxleaf int!, maxint smallint!, minleaf smallint!,
 minint smallint!, rsguid varbinary(16), lockres varbinary(8), scope_id int""",
    (7, "sysallocunits"): """auid bigint!, type tinyint!, ownerid bigint!, status int!,
 fgid smallint!, pgfirst binary(6)!, pgroot binary(6)!, pgfirstiam binary(6)!, pcused bigint!,
 pcdata bigint!, pcreserved bigint!""",
    (8, "sysfiles1"): "status int!, fileid smallint!, name nchar(128)!, filename nchar(260)!",
    (9, "sysseobjvalues"): """valclass tinyint!, id bigint!, subid bigint!, valnum int!,
 value sql_variant, imageval varbinary(max)""",
    (17, "syspriorities"): """priority_id int!, name sysname!, service_contract_id int,
 local_service_id int, remote_service_name nvarchar(256), priority tinyint!""",
    (
        18,
        "sysdbfrag",
    ): "dbid int!, fragid int!, name sysname!, brickid int!, pruid int!, status int!",
    (27, "sysowners"): """id int!, name sysname!, type char(1)!, sid varbinary(85),
 password varbinary(256), dfltsch sysname, status int!, created datetime!, modified datetime!,
 deflanguage sysname, tenantid uniqueidentifier, onpremsid varbinary(85),
 externaloid uniqueidentifier""",
    (29, "sysprivs"): """class tinyint!, id int!, subid int!, grantee int!, grantor int!,
 type char(4)!, state char(1)!""",
    (34, "sysschobjs"): """id int!, name sysname!, nsid int!, nsclass tinyint!, status int!,
 type char(2)!, pid int!, pclass tinyint!, intprop int!, created datetime!, modified datetime!,
 status2 int!""",
    (41, "syscolpars"): """id int!, number smallint!, colid int!, name sysname, xtype tinyint!,
 utype int!, length smallint!, prec tinyint!, scale tinyint!, collationid int!, status int!,
 maxinrow smallint!, xmlns int!, dflt int!, chk int!, idtval varbinary(64)""",
    (44, "sysnsobjs"): """class tinyint!, id int!, name sysname!, nsid int!, status int!,
 intprop int!, created datetime!, modified datetime!""",
    (46, "syscerts"): """id int!, name sysname!, issuer varbinary(884)!, snum varbinary(32)!,
 thumbprint varbinary(32)!, pkey varbinary(4700), encrtype char(2)!, cert varbinary(max),
 status int!, lastpkeybackup datetime""",
    (49, "sysxprops"): "class tinyint!, id int!, subid int!, name sysname!, value sql_variant",
    (50, "sysscalartypes"): """id int!, schid int!, name sysname!, xtype tinyint!,
 length smallint!, prec tinyint!, scale tinyint!, collationid int!, status int!,
 created datetime!, modified datetime!, dflt int!, chk int!""",
    (51, "systypedsubobjs"): """class tinyint!, idmajor int!, subid int!, name sysname,
 xtype tinyint!, utype int!, length smallint!, prec tinyint!, scale tinyint!, collationid int!,
 status int!, intprop int!""",
    (54, "sysidxstats"): """id int!, indid int!, name sysname, status int!, intprop int!,
 fillfact tinyint!, type tinyint!, tinyprop tinyint!, dataspace int!, lobds int!, rowset bigint!""",
    (55, "sysiscols"): """idmajor int!, idminor int!, subid int!, status int!, intprop int!,
 tinyprop1 tinyint!, tinyprop2 tinyint!, tinyprop3 tinyint!, tinyprop4 tinyint!""",
    (58, "sysbinobjs"): """class tinyint!, id int!, nsid int!, name nvarchar(128)!, status int!,
 type char(2)!, intprop int!, created datetime!, modified datetime!""",
    (60, "sysobjvalues"): """valclass tinyint!, objid int!, subobjid int!, valnum int!,
 value sql_variant, imageval varbinary(max)""",
    (64, "sysclsobjs"): """class tinyint!, id int!, name sysname!, status int!, type char(2)!,
 intprop int!, created datetime!, modified datetime!""",
    (65, "sysrowsetrefs"): "class tinyint!, objid int!, indexid int!, rowsetnum smallint!,"
    " rowsetid bigint!, status int!",
    (74, "syssingleobjrefs"): """class tinyint!, depid int!, depsubid int!, indepid int!,
 indepsubid int!, status int!""",
    (75, "sysmultiobjrefs"): """class tinyint!, depid int!, depsubid int!, indepid int!,
 indepsubid int!, status int!""",
    (78, "sysguidrefs"): "class tinyint!, id int!, subid int!, guid uniqueidentifier!, status int!",
    (91, "sysfos"): """id int!, status int!, lang int!, created datetime!, modified datetime!""",
    (92, "sysqnames"): "nid int!, hash int!, name nvarchar(4000)!",
    (93, "sysxmlcomponent"): """id int!, xsdid int!, uriord int!, qual tinyint!, nameid int!,
 symspace char(1)!, nmscope int!, kind char(1)!, deriv char(1)!, status int!, enum char(1)!,
 defval nvarchar(4000)""",
    (97, "sysasymkeys"): """id int!, name sysname!, thumbprint varbinary(64)!, bitlength int!,
 algorithm char(2)!, modified datetime!, pkey varbinary(4700), encrtype char(2),
 pubkey varbinary(max)""",
}
"""Columns by id and name."""


@cache
def base_tables() -> tuple[Relation, ...]:
    """The base tables with their columns, by id."""
    return tuple(
        Relation(
            object_id,
            "sys",
            name,
            tuple(
                Column(number, meta.name, meta.type, meta.nullable)
                for number, meta in enumerate(parse_columns(text), 1)
            ),
        )
        for (object_id, name), text in sorted(_TABLES.items())
    )

"""Offsets of Debezium's connector, as Kafka Connect's own FileOffsetBackingStore wrote them.

The file was written by Connect 4's class, given three entries; the tests put a database and an LSN
of the same length in the place of those it was written with.
"""

import base64

DATABASE = "db_00000000"
COMMIT_LSN = "00000027:00000758:0005"
KEY = b'["shop-connector",{"server":"shop","database":"db_00000000"}]'
VALUE = (
    b'{"transaction_id":null,"event_serial_no":1,"commit_lsn":"00000027:00000758:0005",'
    b'"change_lsn":"00000027:00000758:0003"}'
)
UNFINISHED_KEY = b'["other",{"server":"other","database":"Elsewhere"}]'
UNFINISHED = (
    b'{"commit_lsn":"00000001:00000001:0001","snapshot":"INITIAL","snapshot_completed":false}'
)
GONE_KEY = b'["gone",{"server":"gone","database":"Elsewhere"}]'

FILE = base64.b64decode(
    "rO0ABXNyABFqYXZhLnV0aWwuSGFzaE1hcAUH2sHDFmDRAwACRgAKbG9hZEZhY3RvckkACXRocmVzaG9sZHhwP0AAAAAA"
    "AAx3CAAAABAAAAADdXIAAltCrPMX+AYIVOACAAB4cAAAAD1bInNob3AtY29ubmVjdG9yIix7InNlcnZlciI6InNob3Ai"
    "LCJkYXRhYmFzZSI6ImRiXzAwMDAwMDAwIn1ddXEAfgACAAAAd3sidHJhbnNhY3Rpb25faWQiOm51bGwsImV2ZW50X3Nl"
    "cmlhbF9ubyI6MSwiY29tbWl0X2xzbiI6IjAwMDAwMDI3OjAwMDAwNzU4OjAwMDUiLCJjaGFuZ2VfbHNuIjoiMDAwMDAw"
    "Mjc6MDAwMDA3NTg6MDAwMyJ9dXEAfgACAAAAM1sib3RoZXIiLHsic2VydmVyIjoib3RoZXIiLCJkYXRhYmFzZSI6IkVs"
    "c2V3aGVyZSJ9XXVxAH4AAgAAAFd7ImNvbW1pdF9sc24iOiIwMDAwMDAwMTowMDAwMDAwMTowMDAxIiwic25hcHNob3Qi"
    "OiJJTklUSUFMIiwic25hcHNob3RfY29tcGxldGVkIjpmYWxzZX11cQB+AAIAAAAxWyJnb25lIix7InNlcnZlciI6Imdv"
    "bmUiLCJkYXRhYmFzZSI6IkVsc2V3aGVyZSJ9XXB4"
)


def placed(template: bytes, database: str, commit_lsn: str) -> bytes:
    """The template with another database and LSN."""
    assert len(database) == len(DATABASE)
    return template.replace(DATABASE.encode(), database.encode()).replace(
        COMMIT_LSN.encode(), commit_lsn.encode()
    )

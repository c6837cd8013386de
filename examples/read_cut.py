"""Read two tables as of one LSN, with Spark.

pip install 'tailrace[sink]'
python read_cut.py /srv/lake/shop Shop.dbo.orders Shop.dbo.customers
"""

import sys

from tailrace.reading.lake_session import lake_session
from tailrace_sink import read

if len(sys.argv) < 3:
    sys.exit(__doc__)
lake, *tables = sys.argv[1:]
spark = lake_session()  # of a lake in S3: lake_session(s3={...})
cut = read(spark, lake).as_of("latest")  # or lsn="...", or time=datetime(...)
for table in tables:
    cut.read(table).show()

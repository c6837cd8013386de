"""Read one table of a lake at one cut into pandas, without Spark.

pip install 'tailrace[lake]'
python read_with_pandas.py /data/lake dbo.orders

For S3: lake.open("s3://bucket/lake", endpoint="...", access_key="...", secret_key_file="...").
"""

import sys

from tailrace import lake

if len(sys.argv) != 3:
    sys.exit(__doc__)
address, table = sys.argv[1:]
cut = lake.open(address).as_of("latest")
rows = cut.pandas(table)
print(rows[[name for name in rows if not name.startswith("_cdc_")]].to_string(index=False))

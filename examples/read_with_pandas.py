"""Read one table of a lake into pandas, without Spark.

pip install deltalake pandas pyarrow
python read_with_pandas.py /data/lake/Shop/dbo/orders

A bare table may lag the newest cut by one fold. Join tables by Spark and a cut (read_cut.py).
"""

import sys

import pandas as pd
import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

orders = QueryBuilder().register("orders", DeltaTable(sys.argv[1]))
rows: pd.DataFrame = pa.table(orders.execute("SELECT * FROM orders").read_all()).to_pandas()
print(rows[[name for name in rows if not name.startswith("_cdc_")]].to_string(index=False))

"""An application in SQL, run from Python to the end of its data.

python docs/examples/run_app.py
"""

import tempfile
from pathlib import Path

import penstock as ps

app = ps.App.from_file(Path(__file__).with_name("auction.sql"))
run = app.start(checkpoint=tempfile.mkdtemp(prefix="penstock-auction-"), shards=2)
run.process_all_available()
report = run.report()  # counters of the last micro-batch
run.end()  # no row follows: every window closes, every open item is reported

sold = run.results("sold")  # a pyarrow.Table
assert sold is not None
assert report is not None
print(sold.num_rows, "items; the first to close:", sold.slice(0, 1).to_pylist()[0])
print(report.state_rows, "rows of state were enough for", report.entries["bid@1.0"]["used"], "bids")

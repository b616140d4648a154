-- the running query with what is declared of its streams
CREATE STREAM auction (item_id BIGINT, seller BIGINT, at TIMESTAMP, UNIQUE (item_id), WATERMARK at DELAY OF INTERVAL 5 SECONDS) USING feed OPTIONS (rate '100');
CREATE STREAM bid (item_id BIGINT, bidder BIGINT, price DOUBLE, at TIMESTAMP, mark STRING, WATERMARK at DELAY OF INTERVAL 5 SECONDS)
  USING feed OPTIONS (rate '2000') PUNCTUATIONS FROM mark ON (item_id);
CREATE CQ bids AS SELECT a.item_id, count(*) AS bids FROM auction a [RANGE 24 HOURS], bid b WHERE a.item_id = b.item_id GROUP BY a.item_id;
----
application auction: the state of every operator is bounded

query bids
  bounded    Project item_id = a.item_id, bids = `count(*)`: keeps nothing
  bounded    GroupBy a.item_id: count(*) [unbounded]
             groups: a punctuation on a.item_id closes what it matches (UNIQUE (item_id) of auction); open values of a.item_id
  bounded    WindowJoin a.item_id = b.item_id [sliding 1 day | unbounded]
             rows of a: a row goes once b is past its window of 1 day; rate(a) × (1 day + 5 seconds) ≈ 8,640,500 rows
             rows of b: a row goes, or is not even stored, once a closes its key (UNIQUE (item_id) of auction); rows whose b.item_id is still open
             if every b.item_id also comes in a

note: event time of a stream advances as long as every partition of its source sends rows
note: closed values are remembered, to find rows that break the promise: adjacent whole numbers as one range, others one by one

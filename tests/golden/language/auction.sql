-- the running query of the auction: an item is reported when a punctuation closes it
CREATE STREAM Auction (item_id BIGINT NOT NULL, seller BIGINT, ts TIMESTAMP,
  UNIQUE (item_id), WATERMARK ts DELAY OF INTERVAL 5 SECONDS) USING feed OPTIONS (workload 'auction.auction');
CREATE STREAM Bid (item_id BIGINT, bidder BIGINT, price DOUBLE, ts TIMESTAMP, mark STRING,
  WATERMARK ts DELAY OF INTERVAL 5 SECONDS) USING feed OPTIONS (workload 'auction.bid') PUNCTUATIONS FROM mark;
CREATE CQ bids_per_item AS
SELECT A.item_id, COUNT(*)
FROM   Auction [Range 24 Hours] A, Bid B
WHERE  A.item_id = B.item_id
GROUP BY A.item_id
OUTPUT TO console, parquet OPTIONS (path 'out/bids');
----
bids_per_item
Project item_id = A.item_id, count(*)
  GroupBy A.item_id: count(*) [unbounded]
    WindowJoin A.item_id = B.item_id [sliding 1 day | unbounded]
      Scan Auction as A
      Scan Bid as B
-> console
-> parquet path=out/bids

====
-- the first version has no window at all; names match without case, the window may follow the alias
CREATE STREAM Auction (item_id BIGINT, ts BIGINT, UNIQUE (item_id), WATERMARK ts DELAY OF 0);
CREATE STREAM Bid (item_id BIGINT, ts BIGINT, WATERMARK ts DELAY OF 5);
CREATE CQ without AS SELECT a.ITEM_ID, count(*) AS bids FROM auction a JOIN bid b ON a.item_id == b.item_id GROUP BY A.item_id;
CREATE CQ within AS SELECT a.item_id, b.ts FROM Auction A [RANGE 24], Bid B [Range 12] WHERE a.item_id = b.item_id;
----
without
Project item_id = a.item_id, bids = `count(*)`
  GroupBy a.item_id: count(*) [unbounded]
    WindowJoin a.item_id = b.item_id [unbounded | unbounded]
      Scan Auction as a
      Scan Bid as b

within
Project item_id = A.item_id, ts = B.ts
  WindowJoin A.item_id = B.item_id [sliding 24 | sliding 12]
    Scan Auction as A
    Scan Bid as B

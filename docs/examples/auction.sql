-- Bids for items: which items are popular, and what was the price of an item when it closed?
--
--   penstock check   docs/examples/auction.sql
--   penstock explain docs/examples/auction.sql
--   penstock run     docs/examples/auction.sql --seconds 15
--
-- The built-in source `feed` makes 40,000 bids: an item opens and one closes every 100 bids. When item 17 closes, the row
-- {"item_id": 17} in column `mark` promises that no bid for it follows.
CREATE STREAM bid (
  item_id BIGINT, bidder BIGINT, price DOUBLE, ts TIMESTAMP, mark STRING,
  WATERMARK ts DELAY OF INTERVAL 2 SECONDS
) USING feed OPTIONS (workload 'auction.bid', marks 'constant', bids_per_item '100', disorder '1 second',
                      total '40000', rows_per_batch '10000')
  PUNCTUATIONS FROM mark ON (item_id);

-- No window: an item is reported, and its state removed, when its punctuation comes.
CREATE CQ sold AS
SELECT item_id, COUNT(*) AS bids, MAX(price) AS price
FROM bid
GROUP BY item_id
OUTPUT TO memory, json OPTIONS (path 'out/sold');

-- Items with more than 80 bids in four seconds.
CREATE CQ popular AS
SELECT window_start() AS since, item_id, COUNT(*) AS bids
FROM bid [RANGE 4 SECONDS]
GROUP BY item_id
HAVING COUNT(*) > 80
OUTPUT TO memory;

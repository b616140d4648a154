-- Bids per item, with a contract: answers within two seconds, and up to half of the bids may be left out for that.
--
--   penstock plan docs/examples/contract.sql --trial '20 seconds'
--   penstock run  docs/examples/contract.sql --seconds 60
--   penstock why  docs/examples/contract.sql
CREATE STREAM bid (item_id BIGINT, bidder BIGINT, price DOUBLE, ts TIMESTAMP, WATERMARK ts DELAY OF INTERVAL 1 SECOND)
USING feed OPTIONS (workload 'auction.bid', rate '600000');

CREATE CQ bids_per_item
WITH QOS (LATENCY <= INTERVAL 2 SECONDS MUST, LOSS <= 50 PERCENT DROP LOWEST price)
AS SELECT item_id, COUNT(*) AS bids, MAX(price) AS highest FROM bid [RANGE 4 SECONDS, ADVANCE 1 SECOND] GROUP BY item_id;

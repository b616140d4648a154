-- An online auction: about 2,000 bids a second for a hundred open auctions; twenty open, and twenty close, every second.

-- Each item is offered once, so no second row follows it: a bid that has met its auction need not be remembered.
CREATE STREAM auction (
  item_id BIGINT NOT NULL, seller BIGINT, category STRING, reserve DOUBLE, opens TIMESTAMP, part INT, off BIGINT,
  UNIQUE (item_id),
  WATERMARK opens DELAY OF INTERVAL 2 SECONDS
) USING feed OPTIONS (workload 'auction.auction', rate '2000', bids_per_item '100', disorder '1 second', partitions '2',
                      max_rows_per_batch '10000')
  PARTITIONED BY part POSITION off;

-- When auction 17 closes, the feed writes {"item_id": 17} into `mark`: a punctuation, the promise that no bid for it follows.
-- One bid in two thousand comes more than ten seconds late: it is kept apart in the quarantine, and counted.
CREATE STREAM bid (
  item_id BIGINT NOT NULL, bidder BIGINT, price DOUBLE, ts TIMESTAMP, mark STRING, part INT, off BIGINT,
  WATERMARK ts DELAY OF INTERVAL 2 SECONDS
) USING feed OPTIONS (workload 'auction.bid', rate '2000', bids_per_item '100', disorder '1 second', late_fraction '0.0005',
                      marks 'constant', partitions '2', max_rows_per_batch '10000')
  PUNCTUATIONS FROM mark ON (item_id)
  PARTITIONED BY part POSITION off;

-- People talk about open items, a hundred rows a second; the stream of comments announces each close too, as that of bids does.
CREATE STREAM comment (
  item_id BIGINT NOT NULL, author BIGINT, stars BIGINT, ts TIMESTAMP, mark STRING, part INT, off BIGINT,
  WATERMARK ts DELAY OF INTERVAL 2 SECONDS
) USING feed OPTIONS (workload 'auction.comment', rate '2000', bids_per_item '100', bids_per_comment '20', disorder '1 second',
                      marks 'constant', partitions '1', max_rows_per_batch '10000')
  PUNCTUATIONS FROM mark ON (item_id)
  PARTITIONED BY part POSITION off;

-- Somebody sorts each item into a category, once.
CREATE STREAM category (
  item_id BIGINT NOT NULL, category_id BIGINT, category_name STRING, ts TIMESTAMP, part INT, off BIGINT,
  UNIQUE (item_id),
  WATERMARK ts DELAY OF INTERVAL 2 SECONDS
) USING feed OPTIONS (workload 'auction.category', rate '2000', bids_per_item '100', disorder '1 second', partitions '1',
                      max_rows_per_batch '10000')
  PARTITIONED BY part POSITION off;

-- The running example: how often was an item bid for, and what did it fetch? There is no window: an item is reported when it
-- closes, and only open auctions are remembered.
CREATE CQ bids_per_item AS
SELECT a.item_id, COUNT(*) AS bids, MAX(b.price) AS price
FROM   auction a, bid b
WHERE  a.item_id = b.item_id
GROUP BY a.item_id
OUTPUT TO memory;

-- Price statistics of each category, every five seconds, over what the join finds.
CREATE CQ category_prices AS
SELECT window_start() AS since, category, COUNT(*) AS bids, AVG(price) AS average, STDDEV(price) AS spread, MAX(price) AS highest
FROM   (SELECT a.category, b.price FROM auction a, bid b WHERE a.item_id = b.item_id) AS offer [RANGE 5 SECONDS]
GROUP BY category
OUTPUT TO memory;

-- The average of the last ten seconds, every two seconds.
CREATE CQ moving_average AS
SELECT window_end() AS until, AVG(price) AS average, COUNT(*) AS bids
FROM   bid [RANGE 10 SECONDS, ADVANCE 2 SECONDS]
OUTPUT TO memory;

-- Who bid more than 1,450 in this minute? Each bidder once.
CREATE CQ big_spenders AS
SELECT DISTINCT bidder
FROM   bid [RANGE 1 MINUTE]
WHERE  price > 1450
OUTPUT TO memory;

-- Items with more than 90 bids within four seconds.
CREATE CQ hot_items AS
SELECT window_start() AS since, item_id, COUNT(*) AS bids, COUNT(DISTINCT bidder) AS bidders
FROM   bid [RANGE 4 SECONDS]
GROUP BY item_id
HAVING COUNT(*) > 90
OUTPUT TO memory;

-- A query over a query: how many hot items in twelve seconds, and how hot was the hottest?
CREATE CQ heat AS
SELECT window_start() AS since, COUNT(*) AS items, MAX(bids) AS most
FROM   hot_items [RANGE 12 SECONDS]
OUTPUT TO memory;

-- The same with a window of a day, as somebody would write who cannot count on the announcements. Where they come they are
-- earlier than the end of the day: an item is still reported when it closes, and only open auctions are remembered.
CREATE CQ bids_within_a_day AS
SELECT a.item_id, COUNT(*) AS bids, MAX(b.price) AS price
FROM   auction a [RANGE 24 HOURS], bid b [RANGE 24 HOURS]
WHERE  a.item_id = b.item_id
GROUP BY a.item_id
OUTPUT TO memory;

-- And with a window only: the hint asks for a join that knows no punctuations. It finds the same pairs, since no auction is open
-- for a minute, but keeps every row for that long; `penstock demo auction` shows the state of both side by side.
CREATE CQ bids_by_window_only AS
SELECT window_start() AS since, item_id, COUNT(*) AS bids, MAX(price) AS price
FROM   (SELECT /*+ WJOIN */ a.item_id, b.price
        FROM auction a [RANGE 1 MINUTE], bid b [RANGE 1 MINUTE] WHERE a.item_id = b.item_id) AS offer [RANGE 5 SECONDS]
GROUP BY item_id
OUTPUT TO memory;

-- Four streams at once: items that somebody bid for and somebody talked about, with category, best price and the number of
-- people. An item is reported, and all its rows are forgotten, when bids and comments have both announced its close.
CREATE CQ talk_of_the_town AS
SELECT a.item_id, g.category_name, MAX(b.price) AS price, COUNT(DISTINCT b.bidder) AS bidders, COUNT(DISTINCT c.author) AS authors,
       MAX(c.stars) AS stars
FROM   auction a, bid b, comment c, category g
WHERE  a.item_id = b.item_id AND a.item_id = c.item_id AND a.item_id = g.item_id
GROUP BY a.item_id, g.category_name
OUTPUT TO memory;

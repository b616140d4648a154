-- Nexmark: of fifty events one person registers, three auctions begin and 46 bids are made. Auctions are open for a few
-- seconds; a bid names an auction that is open, or about to begin. Queries have the names and the meaning of the Nexmark
-- suite; docs/nexmark.md says where they differ.

-- A person registers once, so no second row follows: an auction that has met its seller need not be remembered.
CREATE STREAM person (
  id BIGINT NOT NULL, name STRING, email STRING, city STRING, state STRING, date_time TIMESTAMP, part INT, off BIGINT,
  UNIQUE (id),
  WATERMARK date_time DELAY OF INTERVAL 1 SECOND
) USING feed OPTIONS (workload 'nexmark.person', rate '2500', in_flight '500', seller_marks '2', disorder '500 ms', partitions '2',
                      max_rows_per_batch '12500')
  PARTITIONED BY part POSITION off;

-- Only the last thousand people sell. Twice in a hundred auctions `mark` closes the others: {"seller": {"range": [1000, 1033], …}}.
CREATE STREAM auction (
  id BIGINT NOT NULL, item_name STRING, description STRING, initial_bid BIGINT, reserve BIGINT, date_time TIMESTAMP,
  expires TIMESTAMP, seller BIGINT, category BIGINT, mark STRING, part INT, off BIGINT,
  UNIQUE (id),
  WATERMARK date_time DELAY OF INTERVAL 1 SECOND
) USING feed OPTIONS (workload 'nexmark.auction', rate '2500', in_flight '500', seller_marks '2', marks 'range', disorder '500 ms',
                      partitions '2', max_rows_per_batch '12500')
  PUNCTUATIONS FROM mark ON (seller)
  PARTITIONED BY part POSITION off;

-- Bids reach five hundred auctions back. Every few hundred bids `mark` closes the others: {"auction": {"range": [1000, 1015], …}}.
CREATE STREAM bid (
  auction BIGINT NOT NULL, bidder BIGINT, price BIGINT, channel STRING, url STRING, date_time TIMESTAMP, mark STRING,
  part INT, off BIGINT,
  WATERMARK date_time DELAY OF INTERVAL 1 SECOND
) USING feed OPTIONS (workload 'nexmark.bid', rate '2500', in_flight '500', seller_marks '2', marks 'range', disorder '500 ms',
                      partitions '2', max_rows_per_batch '12500')
  PUNCTUATIONS FROM mark ON (auction)
  PARTITIONED BY part POSITION off;

-- q3, local item suggestion: who sells in category 10 in Oregon, Idaho or California? No window: a person is forgotten when
-- the auctions say that they will not sell again, an auction when its seller is known.
CREATE CQ q3 AS
SELECT p.name, p.city, p.state, a.id
FROM   auction a, person p
WHERE  a.seller = p.id AND a.category = 10 AND p.state IN ('OR', 'ID', 'CA')
OUTPUT TO memory;

-- q9, winning bids: the highest bid, of equal ones the earliest, among those made while the auction was open. It is
-- reported when no more bids can come for the auction, and only then: nothing is taken back.
CREATE CQ q9 AS
SELECT a.id, a.item_name, a.seller, a.category, a.reserve, a.expires,
       min_by(b.bidder, struct(-b.price, b.date_time)) AS bidder,
       MAX(b.price) AS price,
       min_by(b.date_time, struct(-b.price, b.date_time)) AS date_time
FROM   auction a, bid b
WHERE  a.id = b.auction AND b.date_time BETWEEN a.date_time AND a.expires
GROUP BY a.id, a.item_name, a.seller, a.category, a.reserve, a.expires
OUTPUT TO memory;

-- q4, average price for a category: a query over q9, every ten seconds.
CREATE CQ q4 AS
SELECT window_start() AS since, category, AVG(price) AS average, COUNT(*) AS auctions
FROM   q9 [RANGE 10 SECONDS]
GROUP BY category
OUTPUT TO memory;

-- q7, highest bid of each ten seconds.
CREATE CQ q7 AS
SELECT window_start() AS since, MAX(price) AS price,
       min_by(auction, struct(-price, date_time)) AS auction,
       min_by(bidder, struct(-price, date_time)) AS bidder
FROM   bid [RANGE 10 SECONDS]
OUTPUT TO memory;

-- q8, monitor new users: who registered and offered something within the same ten seconds?
CREATE CQ q8 AS
SELECT window_start() AS since, p.id, p.name, COUNT(*) AS auctions
FROM   person p [RANGE 10 SECONDS TUMBLING], auction a [RANGE 10 SECONDS TUMBLING]
WHERE  p.id = a.seller
GROUP BY p.id, p.name
OUTPUT TO memory;

-- q20, expand bids: every bid in category 10 with its auction. No window and no time condition: a bid may come before its
-- auction or after it has expired.
CREATE CQ q20 AS
SELECT b.auction, b.bidder, b.price, b.channel, b.url, b.date_time, a.item_name, a.description, a.initial_bid, a.reserve,
       a.date_time AS begins, a.expires, a.seller, a.category
FROM   bid b, auction a
WHERE  b.auction = a.id AND a.category = 10
OUTPUT TO memory;

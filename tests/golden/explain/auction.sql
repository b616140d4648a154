-- a join and a grouping on one key share a stage
CREATE STREAM auction (item_id BIGINT, seller BIGINT, category STRING, at TIMESTAMP, UNIQUE (item_id), WATERMARK at DELAY OF INTERVAL 5 SECONDS) USING feed OPTIONS (rate '100');
CREATE STREAM bid (item_id BIGINT, bidder BIGINT, price DOUBLE, at TIMESTAMP, mark STRING, WATERMARK at DELAY OF INTERVAL 5 SECONDS)
  USING feed OPTIONS (rate '2000') PUNCTUATIONS FROM mark ON (item_id);
CREATE CQ bids AS SELECT a.item_id, count(*) AS bids, max(b.price) AS top
  FROM auction a [RANGE 24 HOURS], bid b WHERE a.item_id = b.item_id AND b.price > 1 AND a.category = 'art' GROUP BY a.item_id
  OUTPUT TO console;
CREATE CQ busy AS SELECT bidder, count(*) AS n FROM bid [RANGE 1 MINUTE] GROUP BY bidder HAVING count(*) > 3 OUTPUT TO memory, parquet OPTIONS (path 'out');
----
application auction: 1 round on 2 shards, state bounded

query bids -> console
  Project item_id = a.item_id, bids = `count(*)`, top = `max(b.price)`  round 1
    GroupBy a.item_id: count(*), max(b.price) [unbounded]               round 1 by a.item_id
    . groups: a punctuation on a.item_id closes what it matches (UNIQUE (item_id) of auction); open values of a.item_id
      WindowJoin a.item_id = b.item_id [sliding 1 day | unbounded]      round 1 by a.item_id
      . PWJoin: windows on a; punctuations: a closes a.item_id (UNIQUE (item_id) of auction), b closes b.item_id (PUNCTUATIONS FROM mark ON (item_id) of bid)
      . rows of a: a row goes once b is past its window of 1 day; rate(a) × (1 day + 5 seconds) ≈ 8,640,500 rows
      . rows of b: a row goes, or is not even stored, once a closes its key (UNIQUE (item_id) of auction); rows whose b.item_id is still open
      . if every b.item_id also comes in a among rows with a.category = 'art'
        Project a.item_id                                               Catalyst, 100 rows/s
          Select a.category = 'art'                                     Catalyst, 100 rows/s
            Scan auction as a                                           Catalyst, 100 rows/s
        Project b.item_id, b.price                                      Catalyst, 2,000 rows/s
          Select b.price > 1                                            Catalyst, 2,000 rows/s
            Scan bid as b                                               Catalyst, 2,000 rows/s

query busy -> memory, parquet path=out
  Project bidder, n = `count(*)`                    round 1
    GroupFilter `count(*)` > 3                      round 1
      GroupBy bidder: count(*) [tumbling 1 minute]  round 1 by bidder
      . groups: a window of 1 minute goes when event time has passed it; ≤ rate × (1 minute + 5 seconds) ≈ 130,000 rows
        Project item_id, bidder                     Catalyst, 2,000 rows/s
          Scan bid                                  Catalyst, 2,000 rows/s

sources, as Catalyst reads them
  auction (feed) -> round 1 by a.item_id
  . crosses: a.item_id = `item_id`
  . where: (`category` = 'art')
  bid (feed) -> round 1 by b.item_id
  . crosses: b.item_id = `item_id`, b.price = `price`
  . where: (`price` > 1.0D)
  bid (feed) -> round 1 by bidder
  . crosses: item_id, bidder

memory of joins: rate × mean stay of a row
  WindowJoin1
  . memory of a: at most about 8,640,500 rows, 207.4 MB (window; less as values are closed earlier)
  . memory of b: known once values have been closed, possibly unsafe

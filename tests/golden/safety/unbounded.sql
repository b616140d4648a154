-- state that grows, in every way there is
CREATE STREAM auction (item_id BIGINT, seller BIGINT, at TIMESTAMP, WATERMARK at DELAY OF INTERVAL 5 SECONDS);
CREATE STREAM bid (item_id BIGINT, bidder BIGINT, price DOUBLE, at TIMESTAMP, WATERMARK at DELAY OF INTERVAL 5 SECONDS);
CREATE CQ joined AS SELECT a.item_id, b.price FROM auction a, bid b WHERE a.item_id = b.item_id;
CREATE CQ so_far AS SELECT bidder, count(*) AS n FROM bid [LANDMARK RANGE 1 HOUR, ADVANCE 1 HOUR] GROUP BY bidder;
CREATE CQ most AS SELECT max(n) AS n FROM so_far [RANGE 1 HOUR];
CREATE CQ last_three AS SELECT item_id, max(price) AS top FROM bid [PARTITION BY item_id ROWS 3, ADVANCE 1] GROUP BY item_id;
CREATE CQ longer BEGIN '2026-05-01' AS SELECT count(*) AS n FROM bid [RANGE 1 HOUR MOVE (1 MINUTE, 2 MINUTES)];
CREATE CQ known AS SELECT seller AS who FROM auction UNION SELECT bidder FROM bid;
----
application unbounded: 6 of 14 operators keep more and more

query joined
  bounded    Project item_id = a.item_id, price = b.price: keeps nothing
  UNBOUNDED  WindowJoin a.item_id = b.item_id [unbounded | unbounded]
             rows of a: a row is kept for ever: it has no window, and b never closes b.item_id (grows-with-rows)
             rows of b: a row is kept for ever: it has no window, and a never closes a.item_id (grows-with-rows)
             to bound it: [RANGE 1 HOUR] on `auction a` in CREATE CQ joined and [RANGE 1 HOUR] on `bid b` in CREATE CQ joined
             or [RANGE 1 HOUR] on `auction a` in CREATE CQ joined and UNIQUE (item_id) in CREATE STREAM auction
             or [RANGE 1 HOUR] on `bid b` in CREATE CQ joined and UNIQUE (item_id) in CREATE STREAM bid
             or UNIQUE (item_id) in CREATE STREAM auction and UNIQUE (item_id) in CREATE STREAM bid

query so_far
  bounded    Project bidder, n = `count(*)`: keeps nothing
  UNBOUNDED  GroupBy bidder: count(*) [landmark 1 hour advance 1 hour]
             groups: one row for each bidder; bounded only if the number of bidder is bounded (a landmark window reports every group again, so punctuations close none); values of bidder (grows-with-keys)
             to bound it: [RANGE 1 HOUR] instead of the window on `bid` in CREATE CQ so_far

query most
  bounded    Project n = `max(n)`: keeps nothing
  UNBOUNDED  GroupBy (): max(n) [tumbling 1 hour]
             groups: no window ends, because event time does not advance: the oldest group of bidder that is open holds it back (grows-with-rows)
             to bound it: [RANGE 1 HOUR] instead of the window on `bid` in CREATE CQ so_far

query last_three
  bounded    Project item_id, top = `max(price)`: keeps nothing
  UNBOUNDED  GroupBy item_id: max(price) [sliding 3 rows advance 1 partition by item_id]
             rows that wait for earlier ones: none is older than 5 seconds; rate × 5 seconds
             groups: 3 rows for each item_id; bounded only if the number of item_id is bounded; values of item_id × 3 rows (grows-with-keys)
             to bound it: [RANGE 1 HOUR] instead of the window on `bid` in CREATE CQ last_three
             or CLUSTERED (item_id) in CREATE STREAM bid (or ORDERED (item_id), mark STRING with PUNCTUATIONS FROM mark ON (item_id))

query longer
  bounded    Project n = `count(*)`: keeps nothing
  UNBOUNDED  GroupBy (): count(*) [growing 1 hour move (1 minute, 2 minutes)]
             groups: its windows grow longer without end (grows-with-time)
             to bound it: [RANGE 1 HOUR] instead of the window on `bid` in CREATE CQ longer

query known
  UNBOUNDED  Distinct [unbounded]
             rows that wait for earlier ones: none is older than 5 seconds; rate × 5 seconds
             values: one row for each who; bounded only if the number of who is bounded; values of who (grows-with-keys)
             to bound it: mark STRING with PUNCTUATIONS FROM mark ON (seller) in CREATE STREAM auction and mark STRING with PUNCTUATIONS FROM mark ON (bidder) in CREATE STREAM bid
  bounded    Union of 2: keeps nothing
  bounded    Project bidder: keeps nothing
  bounded    Project who = seller: keeps nothing

note: event time of a stream advances as long as every partition of its source sends rows

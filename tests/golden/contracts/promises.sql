-- every promise and class, bounds that change, and loss by every rule
CREATE STREAM bid (item_id BIGINT, bidder BIGINT, price DOUBLE, at TIMESTAMP, WATERMARK at DELAY OF INTERVAL 5 SECONDS);
CREATE STREAM auction (item_id BIGINT, seller BIGINT, at TIMESTAMP, WATERMARK at DELAY OF INTERVAL 5 SECONDS);
CREATE CQ all_of_them
WITH QOS (
  LATENCY <= (INTERVAL 2 SECONDS AT INTERVAL 0 SECONDS TO INTERVAL 1 SECOND AT INTERVAL 60 SECONDS, INTERVAL 1 SECOND AT INTERVAL 60 SECONDS) MUST,
  MEMORY <= '200 MB' BEST EFFORT,
  THROUGHPUT >= 500 DONT CARE
) AS SELECT item_id, price FROM bid WHERE price > 1000;
CREATE CQ lowest WITH QOS (LATENCY <= INTERVAL 3 SECONDS, LOSS <= 40 PERCENT DROP LOWEST price)
AS SELECT item_id, price FROM bid WHERE bidder > 3;
CREATE CQ around WITH QOS (LATENCY <= INTERVAL 3 SECONDS, LOSS <= 2.5 PERCENT DROP OUTLIER price AROUND 10 BY RANGE)
AS SELECT item_id, price FROM bid WHERE bidder > 4;
CREATE CQ joined WITH QOS (LATENCY <= INTERVAL 3 SECONDS BEST EFFORT, LOSS <= 15 PERCENT)
AS SELECT a.item_id, b.price FROM auction [RANGE 1 MINUTE] a, bid [RANGE 1 MINUTE] b WHERE a.item_id = b.item_id;
CREATE CQ pairs WITH QOS (LATENCY <= INTERVAL 3 SECONDS, LOSS <= 15 PERCENT ANYWHERE)
AS SELECT a.item_id, b.price FROM auction [RANGE 1 MINUTE] a LEFT JOIN bid [RANGE 1 MINUTE] b ON a.item_id = b.item_id;
----
application promises: the state of every operator is bounded

query all_of_them
  bounded    Project item_id, price: keeps nothing
  bounded    Select price > 1000: keeps nothing

query lowest
  bounded    Project item_id, price: keeps nothing
  bounded    Select bidder > 3: keeps nothing

query around
  bounded    Project item_id, price: keeps nothing
  bounded    Select bidder > 4: keeps nothing

query joined
  bounded    Project item_id = a.item_id, price = b.price: keeps nothing
  bounded    WindowJoin a.item_id = b.item_id [sliding 1 minute | sliding 1 minute]
             rows of a: a row goes once b is past its window of 1 minute; rate(a) × (1 minute + 5 seconds)
             rows of b: a row goes once a is past its window of 1 minute; rate(b) × (1 minute + 5 seconds)

query pairs
  bounded    Project item_id = a.item_id, price = b.price: keeps nothing
  bounded    WindowJoin LEFT a.item_id = b.item_id [sliding 1 minute | sliding 1 minute]
             rows of a: a row goes once b is past its window of 1 minute; event time of the output waits for it until its answer is known; rate(a) × (1 minute + 5 seconds)
             rows of b: a row goes once a is past its window of 1 minute; rate(b) × (1 minute + 5 seconds)

note: event time of a stream advances as long as every partition of its source sends rows

contracts
  query all_of_them
  . LATENCY <= 2.00 s falling to 1.00 s from 0 s to 60 s, then 1.00 s from 60 s on MUST
  . MEMORY <= 200.0 MB BEST EFFORT
  . THROUGHPUT >= 500/s DONT CARE
  query lowest
  . LATENCY <= 3.00 s MUST
  . LOSS <= 40 %, when micro-batches take too long for a LATENCY … MUST
  . of bid (bid@1.1) up to 40 % of the rows: those with the lowest price first
  query around
  . LATENCY <= 3.00 s MUST
  . LOSS <= 2.5 %, when micro-batches take too long for a LATENCY … MUST
  . of bid (bid@1.2) up to 2.5 % of the rows: those whose price is farthest from 10 first, so much of the range of its values
  query joined
  . LATENCY <= 3.00 s BEST EFFORT
  . LOSS <= 15 %, when micro-batches take too long for a LATENCY … MUST
  . of auction (auction@1.3) up to 7.8 % of the rows, for pairs too: any, by their positions alone
  . of bid (bid@1.4) up to 7.8 % of the rows, for pairs too: any, by their positions alone
  query pairs
  . LATENCY <= 3.00 s MUST
  . LOSS <= 15 %, when micro-batches take too long for a LATENCY … MUST
  . of auction (auction@1.3) up to 7.8 % of the rows, for joined too: any, by their positions alone; also where answers become wrong instead of incomplete
  . of bid (bid@1.4) up to 7.8 % of the rows, for joined too: any, by their positions alone; also where answers become wrong instead of incomplete

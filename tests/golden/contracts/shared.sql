-- rows that several queries read: all of them must allow loss, or it is behind the place where their ways part
CREATE STREAM bid (item_id BIGINT, bidder BIGINT, price DOUBLE, at TIMESTAMP, WATERMARK at DELAY OF INTERVAL 5 SECONDS);
CREATE STREAM auction (item_id BIGINT, seller BIGINT, at TIMESTAMP, WATERMARK at DELAY OF INTERVAL 5 SECONDS);
CREATE CQ plain AS SELECT item_id, price FROM bid;
CREATE CQ per_item WITH QOS (LATENCY <= INTERVAL 3 SECONDS, LOSS <= 10 PERCENT)
AS SELECT item_id, COUNT(*) AS n FROM plain [RANGE 1 MINUTE] GROUP BY item_id;
CREATE CQ joined WITH QOS (LATENCY <= INTERVAL 3 SECONDS, LOSS <= 10 PERCENT)
AS SELECT p.item_id, p.price FROM plain [RANGE 1 MINUTE] p, auction [RANGE 1 MINUTE] a WHERE p.item_id = a.item_id;
CREATE CQ per_bidder WITH QOS (LATENCY <= INTERVAL 3 SECONDS, LOSS <= 10 PERCENT DROP LOWEST price)
AS SELECT bidder, COUNT(*) AS n FROM bid [RANGE 1 MINUTE] GROUP BY bidder;
CREATE CQ for_longer AS SELECT bidder, COUNT(*) AS n FROM bid [RANGE 2 MINUTES] GROUP BY bidder;
CREATE CQ for_ever WITH QOS (LATENCY <= INTERVAL 3 SECONDS, LOSS <= 10 PERCENT DROP LOWEST price)
AS SELECT bidder, COUNT(*) AS n FROM bid [RANGE 1 HOUR] GROUP BY bidder;
CREATE CQ per_seller WITH QOS (LATENCY <= INTERVAL 3 SECONDS, LOSS <= 10 PERCENT)
AS SELECT seller, COUNT(*) AS n FROM auction [RANGE 1 MINUTE] GROUP BY seller;
CREATE CQ sellers AS SELECT seller, COUNT(*) AS n FROM auction [RANGE 2 MINUTES] GROUP BY seller;
CREATE CQ one WITH QOS (LATENCY <= INTERVAL 3 SECONDS, LOSS <= 10 PERCENT DROP LOWEST seller) AS SELECT item_id, seller FROM auction;
CREATE CQ two WITH QOS (LATENCY <= INTERVAL 3 SECONDS, LOSS <= 4 PERCENT DROP HIGHEST seller) AS SELECT item_id, seller FROM auction;
----
application shared: the state of every operator is bounded

query plain
  bounded    Project item_id, price: keeps nothing

query per_item
  bounded    Project item_id, n = `count(*)`: keeps nothing
  bounded    GroupBy item_id: count(*) [tumbling 1 minute]
             groups: a window of 1 minute goes when event time has passed it; ≤ rate × (1 minute + 5 seconds)

query joined
  bounded    Project item_id = p.item_id, price = p.price: keeps nothing
  bounded    WindowJoin p.item_id = a.item_id [sliding 1 minute | sliding 1 minute]
             rows of p: a row goes once a is past its window of 1 minute; rate(p) × (1 minute + 5 seconds)
             rows of a: a row goes once p is past its window of 1 minute; rate(a) × (1 minute + 5 seconds)

query per_bidder
  bounded    Project bidder, n = `count(*)`: keeps nothing
  bounded    GroupBy bidder: count(*) [tumbling 1 minute]
             groups: a window of 1 minute goes when event time has passed it; ≤ rate × (1 minute + 5 seconds)

query for_longer
  bounded    Project bidder, n = `count(*)`: keeps nothing
  bounded    GroupBy bidder: count(*) [tumbling 2 minutes]
             groups: a window of 2 minutes goes when event time has passed it; ≤ rate × (2 minutes + 5 seconds)

query for_ever
  bounded    Project bidder, n = `count(*)`: keeps nothing
  bounded    GroupBy bidder: count(*) [tumbling 1 hour]
             groups: a window of 1 hour goes when event time has passed it; ≤ rate × (1 hour + 5 seconds)

query per_seller
  bounded    Project seller, n = `count(*)`: keeps nothing
  bounded    GroupBy seller: count(*) [tumbling 1 minute]
             groups: a window of 1 minute goes when event time has passed it; ≤ rate × (1 minute + 5 seconds)

query sellers
  bounded    Project seller, n = `count(*)`: keeps nothing
  bounded    GroupBy seller: count(*) [tumbling 2 minutes]
             groups: a window of 2 minutes goes when event time has passed it; ≤ rate × (2 minutes + 5 seconds)

query one
  bounded    Project item_id, seller: keeps nothing

query two
  bounded    Project item_id, seller: keeps nothing

note: event time of a stream advances as long as every partition of its source sends rows

contracts
  query per_item
  . LATENCY <= 3.00 s MUST
  . LOSS <= 10 %, when micro-batches take too long for a LATENCY … MUST
  . of bid (bid@1.1) up to 10 % of the rows: any, by their positions alone
  query joined
  . LATENCY <= 3.00 s MUST
  . LOSS <= 10 %, when micro-batches take too long for a LATENCY … MUST
  . of bid (bid@1.2) up to 5.13 % of the rows: any, by their positions alone
  . of auction (auction@1.3) up to 5.13 % of the rows: any, by their positions alone
  query per_bidder
  . LATENCY <= 3.00 s MUST
  . LOSS <= 10 %, when micro-batches take too long for a LATENCY … MUST
  . but bid (bid@1.4) loses no rows: for_longer gets the same rows, and does not allow that
  . but LOSS is never used: allow it in those queries too, or leave it out here
  query for_ever
  . LATENCY <= 3.00 s MUST
  . LOSS <= 10 %, when micro-batches take too long for a LATENCY … MUST
  . but bid (bid@1.4) loses no rows: for_longer gets the same rows, and does not allow that
  . but LOSS is never used: allow it in those queries too, or leave it out here
  query per_seller
  . LATENCY <= 3.00 s MUST
  . LOSS <= 10 %, when micro-batches take too long for a LATENCY … MUST
  . of auction (auction@1.5), in front of GroupBy12, up to 10 % of the rows: any, by their positions alone
  query one
  . LATENCY <= 3.00 s MUST
  . LOSS <= 10 %, when micro-batches take too long for a LATENCY … MUST
  . of auction (auction@1.6) up to 4 % of the rows, for two too: any, by their positions alone
  . but queries of auction (auction@1.6) want to lose different rows, so any are left out
  query two
  . LATENCY <= 3.00 s MUST
  . LOSS <= 4 %, when micro-batches take too long for a LATENCY … MUST
  . of auction (auction@1.6) up to 4 % of the rows, for one too: any, by their positions alone
  . but queries of auction (auction@1.6) want to lose different rows, so any are left out

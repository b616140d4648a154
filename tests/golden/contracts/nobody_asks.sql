-- loss, and no latency for which it would be used
CREATE STREAM bid (item_id BIGINT, price DOUBLE, at TIMESTAMP, WATERMARK at DELAY OF INTERVAL 5 SECONDS);
CREATE CQ dear WITH QOS (LATENCY <= INTERVAL 3 SECONDS BEST EFFORT, LOSS <= 10 PERCENT) AS SELECT item_id, price FROM bid;
----
application nobody_asks: the state of every operator is bounded

query dear
  bounded    Project item_id, price: keeps nothing

note: event time of a stream advances as long as every partition of its source sends rows

contracts
  query dear
  . LATENCY <= 3.00 s BEST EFFORT
  . LOSS <= 10 %, when micro-batches take too long for a LATENCY … MUST
  . of bid (bid@1.0) up to 10 % of the rows: any, by their positions alone
  . but LOSS is never used: no query has a LATENCY … MUST

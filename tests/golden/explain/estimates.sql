-- weights of rows cross where somebody estimates, and nowhere else
CREATE STREAM bid (item BIGINT, price DOUBLE, at TIMESTAMP, WATERMARK at DELAY OF INTERVAL 5 SECONDS);
CREATE CQ scaled WITH QOS (LATENCY <= INTERVAL 2 SECONDS, LOSS <= 20 PERCENT COMPENSATE) AS SELECT item, COUNT(*) AS bids, sampled_fraction() FROM bid [RANGE 1 MINUTE] WHERE price > 1 GROUP BY item;
CREATE CQ each WITH QOS (LATENCY <= INTERVAL 2 SECONDS, LOSS <= 20 PERCENT) AS SELECT item, sampled_fraction() AS part FROM bid;
CREATE CQ plain WITH QOS (LATENCY <= INTERVAL 2 SECONDS, LOSS <= 20 PERCENT) AS SELECT item, COUNT(*) AS bids FROM bid [RANGE 1 MINUTE] WHERE price > 1 GROUP BY item;
----
application estimates: 1 round on 2 shards, state bounded

query scaled
  Project item, bids = coalesce(`count(*)` + CAST(round(`count(*) left out`) AS BIGINT), `count(*)`), sampled_fraction = `count(*)` / `estimated count(*)`  round 1
    GroupBy item: count(*), count(*) left out, estimated count(*) [tumbling 1 minute]  round 1 by item
    . estimated for all rows, with those that LOSS leaves out: count(*)
    . groups: a window of 1 minute goes when event time has passed it; ≤ rate × (1 minute + 5 seconds)
      Project item, row_weight()  Catalyst
        Select price > 1          Catalyst
          Scan bid                Catalyst
          . each row with its weight: 1 / (1 - the share left out)

query each
  Project item, part = 1.0 / `row_weight()`  round 1
    Project item, row_weight()               Catalyst
      Scan bid                               Catalyst
      . each row with its weight: 1 / (1 - the share left out)

query plain
  Project item, bids = `count(*)`               round 1
    GroupBy item: count(*) [tumbling 1 minute]  round 1 by item
    . groups: a window of 1 minute goes when event time has passed it; ≤ rate × (1 minute + 5 seconds)
      Project item                              Catalyst
        Select price > 1                        Catalyst
          Scan bid                              Catalyst

sources, as Catalyst reads them
  bid -> round 1 by item
  . crosses: item, row_weight() once rows are left out
  . where: (`price` > 1.0D)
  bid -> round 1 in any shard
  . crosses: item, row_weight() once rows are left out
  bid -> round 1 by item
  . crosses: item
  . where: (`price` > 1.0D)

contracts
  query scaled
  . LATENCY <= 2.00 s MUST
  . LOSS <= 20 %, when micro-batches take too long for a LATENCY … MUST
  . of bid (bid@1.0) up to 20 % of the rows: any, by their positions alone; counts, sums and averages are estimated for all rows
  query each
  . LATENCY <= 2.00 s MUST
  . LOSS <= 20 %, when micro-batches take too long for a LATENCY … MUST
  . of bid (bid@1.1) up to 20 % of the rows: any, by their positions alone
  query plain
  . LATENCY <= 2.00 s MUST
  . LOSS <= 20 %, when micro-batches take too long for a LATENCY … MUST
  . of bid (bid@1.2) up to 20 % of the rows: any, by their positions alone

-- counts, sums and averages of all rows where LOSS leaves some out
CREATE STREAM bid (item BIGINT, price DOUBLE, at TIMESTAMP, WATERMARK at DELAY OF INTERVAL 5 SECONDS);
CREATE STREAM item (item BIGINT, seller BIGINT, at TIMESTAMP, WATERMARK at DELAY OF INTERVAL 5 SECONDS);
CREATE CQ scaled WITH QOS (LATENCY <= INTERVAL 2 SECONDS, LOSS <= 20 PERCENT COMPENSATE) AS SELECT item, COUNT(*) AS bids, SUM(item), AVG(price), MAX(price), sampled_fraction(), sampling_error(COUNT(*)) FROM bid [RANGE 1 MINUTE] GROUP BY item HAVING COUNT(*) > 3;
CREATE CQ told WITH QOS (LATENCY <= INTERVAL 2 SECONDS, LOSS <= 20 PERCENT) AS SELECT item, COUNT(*) AS bids, sampled_fraction() AS part FROM bid [RANGE 1 MINUTE] GROUP BY item;
CREATE CQ each WITH QOS (LATENCY <= INTERVAL 2 SECONDS, LOSS <= 20 PERCENT) AS SELECT item, price / sampled_fraction() AS worth FROM bid;
CREATE CQ joined WITH QOS (LATENCY <= INTERVAL 2 SECONDS, LOSS <= 20 PERCENT COMPENSATE) AS SELECT seller, SUM(price) FROM item i [RANGE 1 MINUTE TUMBLING] JOIN bid b [RANGE 1 MINUTE TUMBLING] ON i.item = b.item GROUP BY seller;
CREATE CQ both WITH QOS (LATENCY <= INTERVAL 2 SECONDS, LOSS <= 20 PERCENT COMPENSATE) AS SELECT item, COUNT(*) FROM (SELECT item FROM item WHERE seller > 1 UNION ALL SELECT item FROM bid) [RANGE 1 MINUTE] GROUP BY item;
----
scaled
Project item, bids = coalesce(`count(*)` + CAST(round(`count(*) left out`) AS BIGINT), `count(*)`), sum(item) = coalesce(`sum(item)` + CAST(round(`sum(item) left out`) AS BIGINT), `sum(item)`), avg(price) = CASE WHEN `count(price) left out` IS NULL THEN `avg(price)` ELSE `estimated sum(price)` / `estimated count(price)` END, max(price), sampled_fraction = `count(*)` / `estimated count(*)`, sampling_error(count(*)) = coalesce(sqrt(`variance of count(*)`), 0.0)
  GroupFilter coalesce(`count(*)` + CAST(round(`count(*) left out`) AS BIGINT), `count(*)`) > 3
    GroupBy item: count(*), sum(item), avg(price), max(price), count(*) left out, sum(item) left out, count(price) left out, estimated sum(price), estimated count(price), variance of count(*), estimated count(*) [tumbling 1 minute]
      . estimated for all rows, with those that LOSS leaves out: count(*), sum(item), avg(price)
      Scan bid
        . each row with its weight: 1 / (1 - the share left out)

told
Project item, bids = `count(*)`, part = `count(*)` / `estimated count(*)`
  GroupBy item: count(*), estimated count(*) [tumbling 1 minute]
    Scan bid
      . each row with its weight: 1 / (1 - the share left out)

each
Project item, worth = price / (1.0 / `row_weight()`)
  Scan bid
    . each row with its weight: 1 / (1 - the share left out)

joined
Project seller = i.seller, sum(b.price) = coalesce(`sum(b.price)` + `sum(b.price) left out`, `sum(b.price)`)
  GroupBy i.seller: sum(b.price), sum(b.price) left out [tumbling 1 minute]
    . estimated for all rows, with those that LOSS leaves out: sum(b.price)
    WindowJoin i.item = b.item [tumbling 1 minute | tumbling 1 minute]
      Scan item as i
        . each row with its weight: 1 / (1 - the share left out)
      Scan bid as b
        . each row with its weight: 1 / (1 - the share left out)

both
Project item, count(*) = coalesce(`count(*)` + CAST(round(`count(*) left out`) AS BIGINT), `count(*)`)
  GroupBy item: count(*), count(*) left out [tumbling 1 minute]
    . estimated for all rows, with those that LOSS leaves out: count(*)
    Union of 2
      Project item, row_weight()
        Select seller > 1
          Scan item
            . each row with its weight: 1 / (1 - the share left out)
      Project item, row_weight()
        Scan bid
          . each row with its weight: 1 / (1 - the share left out)

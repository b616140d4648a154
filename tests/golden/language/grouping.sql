-- expressions around aggregates and as keys; names of the select list in GROUP BY and HAVING
CREATE STREAM bid (item BIGINT, bidder BIGINT, price DOUBLE, at TIMESTAMP, WATERMARK at DELAY OF INTERVAL 5 SECONDS);
CREATE CQ parts AS SELECT item, SUM(price) / COUNT(*) + 1, count(DISTINCT bidder) AS bidders, sum(price * 2) FROM bid [RANGE 1 MINUTE] GROUP BY item;
CREATE CQ by_hour AS SELECT hour(at) AS h, item % 10, max(price) AS top FROM bid [RANGE 1 DAY] GROUP BY h, item % 10 HAVING top > avg(price) AND h >= 8;
CREATE CQ no_keys AS SELECT stddev(price) AS spread FROM bid [RANGE 1 MINUTE] HAVING count(*) > 10;
CREATE CQ no_aggregates AS SELECT item FROM bid [RANGE 1 MINUTE] GROUP BY item, bidder;
CREATE CQ bounds AS SELECT window_end(), item, window_start() AS s FROM bid b [RANGE 1 MINUTE] GROUP BY b.item HAVING window_start() > TIMESTAMP '2026-01-01 00:00:00';
CREATE CQ filter_of_rows AS SELECT item, price FROM bid GFILTER price > 10;
CREATE CQ each_bidder AS SELECT DISTINCT bidder FROM bid [RANGE 1 MINUTE] GROUP BY item, bidder;
----
parts
Project item, sum(price) / count(*) + 1 = `sum(price)` / `count(*)` + 1, bidders = `count(DISTINCT bidder)`, sum(price * 2)
  GroupBy item: sum(price), count(*), count(DISTINCT bidder), sum(price * 2) [tumbling 1 minute]
    Scan bid

by_hour
Project h = `hour(at)`, item % 10, top = `max(price)`
  GroupFilter `max(price)` > `avg(price)` AND `hour(at)` >= 8
    GroupBy hour(at), item % 10: max(price), avg(price) [tumbling 1 day]
      Project item, bidder, price, at, hour(at) = hour(at), item % 10 = item % 10
        Scan bid

no_keys
Project spread = `stddev(price)`
  GroupFilter `count(*)` > 10
    GroupBy (): stddev(price), count(*) [tumbling 1 minute]
      Scan bid

no_aggregates
Project item
  GroupBy item, bidder: nothing [tumbling 1 minute]
    Scan bid

bounds
Project window_end = `window_end()`, item, s = `window_start()`
  GroupFilter `window_start()` > TIMESTAMP '2026-01-01 00:00:00Z'
    GroupBy item: nothing [tumbling 1 minute]
      . window bounds window_start(), window_end()
      Scan bid

filter_of_rows
Project item, price
  Select price > 10
    Scan bid

each_bidder
Distinct [tumbling 1 minute]
  Project bidder
    GroupBy item, bidder: nothing [tumbling 1 minute]
      Scan bid

warning: query 'filter_of_rows': GFILTER stands on a select without GROUP BY and acts like WHERE

-- queries over queries, in any order, and selects in FROM
CREATE STREAM bid (item BIGINT, bidder BIGINT, price DOUBLE, at TIMESTAMP, WATERMARK at DELAY OF INTERVAL 5 SECONDS);
CREATE CQ peak AS SELECT max(bids) AS most, window_start() AS minute FROM busy [RANGE 10 MINUTES];
CREATE CQ busy AS SELECT item, COUNT(*) AS bids FROM bid [RANGE 1 MINUTE] GROUP BY item;
CREATE CQ inline AS SELECT item, n * 2 AS twice FROM (SELECT item, count(*) AS n FROM bid [RANGE 1 MINUTE] GROUP BY item) AS g WHERE g.n > 3;
CREATE CQ mixed AS SELECT g.n, b.price FROM (SELECT item, count(*) AS n FROM bid [RANGE 1 MINUTE] GROUP BY item) g [RANGE 1 HOUR], bid b [RANGE 1 HOUR], busy
  WHERE g.item = b.item AND b.item = busy.item;
CREATE CQ whole AS SELECT * FROM busy;
CREATE CQ text AS SELECT `count(*)` FROM (SELECT count(*) FROM bid [RANGE 1 MINUTE]);
----
busy
Project item, bids = `count(*)`
  GroupBy item: count(*) [tumbling 1 minute]
    Scan bid

peak
Project most = `max(bids)`, minute = `window_start()`
  GroupBy (): max(bids) [tumbling 10 minutes]
    . window bounds window_start()
    Reference busy

inline
Project item, twice = n * 2
  Select n > 3
    Project item, n = `count(*)`
      GroupBy item: count(*) [tumbling 1 minute]
        Scan bid

mixed
Project n = g.n, price = b.price
  WindowJoin g.item = b.item = busy.item [sliding 1 hour | sliding 1 hour | unbounded]
    Project g.item = item, g.n = n
      Project item, n = `count(*)`
        GroupBy item: count(*) [tumbling 1 minute]
          Scan bid
    Scan bid as b
    Reference busy

whole
Project item, bids
  Reference busy

text
Project count(*)
  Project count(*)
    GroupBy (): count(*) [tumbling 1 minute]
      Scan bid

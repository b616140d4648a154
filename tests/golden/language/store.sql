-- how long each next hundred customers take to enter
CREATE STREAM Entrance (customer BIGINT, ts TIMESTAMP, WATERMARK ts DELAY OF INTERVAL 0 SECONDS);
CREATE CQ hundred AS SELECT max(ts) - min(ts) AS took FROM Entrance [Row 100 tuples];
CREATE CQ rolling AS SELECT max(ts) - min(ts) AS took FROM Entrance [Rows 100, advance 10 tuples] WHERE customer > 0;
----
hundred
Project took = `max(ts)` - `min(ts)`
  GroupBy (): max(ts), min(ts) [tumbling 100 rows]
    Scan Entrance

rolling
Project took = `max(ts)` - `min(ts)`
  GroupBy (): max(ts), min(ts) [sliding 100 rows advance 10]
    Select customer > 0
      Scan Entrance

warning: query 'rolling': the ROW window counts the rows that pass WHERE

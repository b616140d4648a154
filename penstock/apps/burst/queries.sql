-- Trades of twelve stocks, twelve thousand a second. After fifteen seconds twice as many come, for twenty seconds.

CREATE STREAM tick (
  symbol STRING, price DOUBLE, volume BIGINT, ts TIMESTAMP, part INT, off BIGINT,
  WATERMARK ts DELAY OF INTERVAL 0 SECONDS
) USING feed OPTIONS (workload 'stocks.tick', rate '12000', schedule '15:2,35:1', partitions '2', positions 'true', total '840000')
  PARTITIONED BY part POSITION off;

-- Trades that move a market: one in five hundred, each valuable at once.
CREATE CQ large_trades AS
SELECT symbol, price, volume FROM tick WHERE volume > 498
OUTPUT TO memory;

-- What each stock does, every second.
CREATE CQ pace AS
SELECT symbol, window_end() AS until, COUNT(*) AS trades, SUM(volume) AS shares, MAX(price) AS highest
FROM   tick [RANGE 1 SECOND]
GROUP BY symbol
OUTPUT TO memory;

-- Prices that are new within two seconds.
CREATE CQ fresh_prices AS
SELECT DISTINCT symbol, price FROM tick [RANGE 2 SECONDS]
OUTPUT TO memory;

-- Stocks that rise six times in a row, by more than two in a thousand each time.
CREATE CQ climbs AS
SELECT symbol, first_price, last_price FROM tick MATCH_RECOGNIZE (
  PARTITION BY symbol ORDER BY ts
  MEASURES FIRST(up.price) AS first_price, LAST(up.price) AS last_price
  ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW
  PATTERN (up{6})
  DEFINE up AS price > PREV(price) * 1.002
)
OUTPUT TO memory;

-- Stocks that fall, and come back to within one percent of where they were: the most expensive query.
CREATE CQ recoveries AS
SELECT symbol, top, bottom, trades FROM tick MATCH_RECOGNIZE (
  PARTITION BY symbol ORDER BY ts
  MEASURES before.price AS top, LAST(down.price) AS bottom, COUNT(*) AS trades
  ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW
  PATTERN (before down{3,} up{2,} back) WITHIN INTERVAL 20 SECONDS
  DEFINE down AS price < PREV(price), up AS price > PREV(price), back AS price > before.price * 0.99
)
OUTPUT TO memory;

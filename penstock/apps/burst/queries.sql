-- Trades of twelve stocks, twelve thousand a second. After fifteen seconds twice as many come, for twenty seconds.

CREATE STREAM tick (
  symbol STRING, price DOUBLE, volume BIGINT, ts TIMESTAMP, part INT, off BIGINT,
  WATERMARK ts DELAY OF INTERVAL 0 SECONDS
) USING feed OPTIONS (workload 'stocks.tick', rate '12000', schedule '15:2,35:1', partitions '2', positions 'true', total '840000')
  PARTITIONED BY part POSITION off;

-- Trades that move a market: one in five hundred, each of use at once.
CREATE CQ large_trades AS
SELECT symbol, price, volume FROM tick WHERE volume > 498
OUTPUT TO memory;

-- What each stock does, ten times a second.
CREATE CQ pace AS
SELECT symbol, window_end() AS until, COUNT(*) AS trades, SUM(volume) AS shares, MAX(price) AS highest
FROM   tick [RANGE 100 MILLISECONDS]
GROUP BY symbol
OUTPUT TO memory;

-- Prices that are new within two seconds.
CREATE CQ fresh_prices AS
SELECT DISTINCT symbol, price FROM tick [RANGE 2 SECONDS]
OUTPUT TO memory;

-- Trades of a stock at one price, in pairs: the dearest question of all, and few find it worth asking.
CREATE CQ twins AS
SELECT a.symbol, a.price, a.volume, b.volume AS other
FROM   tick a [RANGE 200 MILLISECONDS], tick b [RANGE 200 MILLISECONDS]
WHERE  a.symbol = b.symbol AND a.price = b.price AND a.volume = b.volume + 499
OUTPUT TO memory;

-- Stocks that rise three times in a row by more than two in a thousand.
CREATE CQ climbs AS
SELECT symbol, first_price, last_price FROM tick MATCH_RECOGNIZE (
  PARTITION BY symbol ORDER BY ts
  MEASURES FIRST(up.price) AS first_price, LAST(up.price) AS last_price
  ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW
  PATTERN (up{4})
  DEFINE up AS price > PREV(price) * 1.002
)
OUTPUT TO memory;

-- Trades of twelve stocks. For a third of the time three times as many come as usual.

CREATE STREAM tick (
  symbol STRING, price DOUBLE, volume BIGINT, ts TIMESTAMP, part INT, off BIGINT,
  WATERMARK ts DELAY OF INTERVAL 0 SECONDS
) USING feed OPTIONS (workload 'stocks.tick', rate '8000', schedule '8:3,18:1', partitions '2', positions 'true')
  PARTITIONED BY part POSITION off;

-- What the right to sell a stock is worth, and how much of the stock it makes up for: a tree of prices for every trade.
CREATE FUNCTION put_value(price DOUBLE) RETURNS DOUBLE
  USING python OPTIONS (callable 'penstock.apps.overload.options:put_value', kind 'rows');
CREATE FUNCTION hedge_ratio(price DOUBLE) RETURNS DOUBLE
  USING python OPTIONS (callable 'penstock.apps.overload.options:hedge_ratio', kind 'rows');

-- Trades that move a market: one in two hundred and fifty. None may be missing.
CREATE CQ large_trades WITH QOS (LATENCY <= INTERVAL 4 SECONDS MUST) AS
SELECT symbol, price, volume FROM tick WHERE volume > 498
OUTPUT TO memory;

-- A value for every trade: the most expensive query. Without some trades its answers are incomplete, not wrong, so up to 60 in
-- a hundred may be left out, the smallest first.
CREATE CQ puts WITH QOS (LATENCY <= INTERVAL 4 SECONDS MUST, LOSS <= 60 PERCENT DROP LOWEST volume) AS
SELECT symbol, price, volume, put_value(price) AS value FROM tick
OUTPUT TO memory;

-- What each stock does, every second. Counts must be right.
CREATE CQ pace WITH QOS (LATENCY <= INTERVAL 4 SECONDS MUST) AS
SELECT symbol, window_end() AS until, COUNT(*) AS trades, SUM(volume) AS shares, MAX(price) AS highest
FROM   tick [RANGE 1 SECOND]
GROUP BY symbol
OUTPUT TO memory;

-- Prices that are new within two seconds. With rows left out some of its answers would be wrong.
CREATE CQ fresh_prices WITH QOS (LATENCY <= INTERVAL 4 SECONDS MUST) AS
SELECT DISTINCT symbol, price FROM tick [RANGE 2 SECONDS]
OUTPUT TO memory;

-- How many shares would make up for all rights, every second: expensive, and the first that may wait.
CREATE CQ exposure WITH QOS (LATENCY <= INTERVAL 8 SECONDS BEST EFFORT) AS
SELECT symbol, window_end() AS until, SUM(hedge_ratio(price) * volume) AS shares
FROM   tick [RANGE 1 SECOND]
GROUP BY symbol
OUTPUT TO memory;

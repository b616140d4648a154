-- Trades of twelve stocks, five a second each. Prices swing between levels that change every few seconds.

CREATE STREAM tick (
  symbol STRING NOT NULL, price DOUBLE, volume BIGINT, ts TIMESTAMP, part INT, off BIGINT,
  WATERMARK ts DELAY OF INTERVAL 1 SECOND
) USING feed OPTIONS (workload 'stocks.tick', rate '60', partitions '2', max_rows_per_batch '5000')
  PARTITIONED BY part POSITION off;

-- A price that has risen at least six times in a row, without a single step back. The run is over, and reported, with the first
-- trade that does not rise; WITHIN bounds what is kept of it.
CREATE CQ rising_runs AS
SELECT symbol, began, ended, low, high, rises
FROM   tick MATCH_RECOGNIZE (
         PARTITION BY symbol
         ORDER BY ts
         MEASURES FIRST(start.ts) AS began, LAST(up.ts) AS ended, FIRST(start.price) AS low, LAST(up.price) AS high, COUNT(up.*) AS rises
         ONE ROW PER MATCH
         AFTER MATCH SKIP TO LAST up
         PATTERN (start up{6,}) WITHIN INTERVAL 20 SECONDS
         DEFINE up AS price > PREV(price)
       );

-- A V: at least three falls in a row, then at least three rises that end within one percent of where it began, or above. The last
-- trade of a V may begin the next one.
CREATE CQ v_shapes AS
SELECT symbol, began, turned, ended, price_before, bottom, price_after, ticks
FROM   tick MATCH_RECOGNIZE (
         PARTITION BY symbol
         ORDER BY ts
         MEASURES FIRST(before.ts) AS began, LAST(down.ts) AS turned, LAST(back.ts) AS ended, FIRST(before.price) AS price_before,
                  LAST(down.price) AS bottom, LAST(back.price) AS price_after, COUNT(*) AS ticks
         ONE ROW PER MATCH
         AFTER MATCH SKIP TO LAST back
         PATTERN (before down{3,} up{2,} back) WITHIN INTERVAL 20 SECONDS
         DEFINE down AS price < PREV(price),
                up   AS price > PREV(price),
                back AS price > PREV(price) AND price >= FIRST(before.price) * 0.99
       );

-- Everything in sentences.
CREATE FUNCTION clock(moment TIMESTAMP) RETURNS STRING
  USING python OPTIONS (callable 'penstock.apps.wording:clock', kind 'arrow');
CREATE FUNCTION money(price DOUBLE) RETURNS STRING
  USING python OPTIONS (callable 'penstock.apps.wording:money', kind 'arrow');
CREATE FUNCTION in_percent(share DOUBLE) RETURNS STRING
  USING python OPTIONS (callable 'penstock.apps.wording:in_percent', kind 'arrow');

CREATE CQ news AS
SELECT symbol, ended AS noticed,
       concat(symbol, ' rose ', CAST(rises AS STRING), ' times in a row, from ', money(low), ' at ', clock(began), ' to ', money(high),
              ' at ', clock(ended), ': up ', in_percent(high / low - 1)) AS sentence
FROM   rising_runs
WHERE  high > low * 1.1
UNION ALL
SELECT symbol, ended AS noticed,
       concat(symbol, ' made a V: down ', in_percent(1 - bottom / price_before), ' from ', money(price_before), ' at ', clock(began), ' to ',
              money(bottom), ' at ', clock(turned), ', then back up to ', money(price_after), ' at ', clock(ended), ' (',
              CAST(ticks AS STRING), ' trades)') AS sentence
FROM   v_shapes
WHERE  bottom < price_before * 0.93
OUTPUT TO memory;

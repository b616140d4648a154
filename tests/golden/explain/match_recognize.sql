CREATE STREAM tick (symbol STRING, price DOUBLE, volume BIGINT, note STRING, ts TIMESTAMP,
  WATERMARK ts DELAY OF INTERVAL 2 SECONDS) USING feed OPTIONS (workload 'stocks.tick', rate '100');

-- conditions look one row back, so they are evaluated for all rows at once; the window bounds the state
CREATE CQ valleys AS SELECT symbol, bottom, top FROM tick MATCH_RECOGNIZE (
  PARTITION BY symbol ORDER BY ts
  MEASURES LAST(down.price) AS bottom, LAST(up.price) AS top, COUNT(*) AS ticks
  AFTER MATCH SKIP TO LAST up
  PATTERN (start down{2,} up+) WITHIN INTERVAL 1 MINUTE
  DEFINE down AS price < PREV(price), up AS price > PREV(price)) WHERE ticks > 5;

-- a condition over the rows taken so far is tested while the match grows; nothing bounds the runs
CREATE CQ runs AS SELECT * FROM tick MATCH_RECOGNIZE (
  PARTITION BY symbol ORDER BY ts MEASURES MATCH_NUMBER() AS n ALL ROWS PER MATCH
  PATTERN (a+ | b c?) DEFINE a AS SUM(a.volume) < 100, b AS volume > 50);
----
application match_recognize: 1 round on 2 shards, state UNBOUNDED

query valleys
  Project symbol, bottom, top                                           round 1
    Select ticks > 5                                                    round 1
      RowPatternMatch (start down{2,} up+) by symbol [within 1 minute]  round 1 by symbol
      . automaton: 0 take start · 1 take down · 2 take down · 3 split 2, 4 · 4 take up · 5 split 4, 6 · 6 accept; a place that failed is not tried again
      . conditions for all rows at once: down, up
      . one row per match, skip TO LAST up
      . down: price < PREV(price)
      . up: price > PREV(price)
      . measures bottom = down.price, top = up.price, ticks = COUNT(*)
      . rows that wait for earlier ones: none is older than 2 seconds; rate × 2 seconds ≈ 200 rows
      . rows of open matches: a match lies within 1 minute; ≤ rate × (1 minute + 2 seconds) ≈ 6,200 rows
        Scan tick                                                       Catalyst, 100 rows/s

query runs
  Project symbol, ts, n, price, volume, note  round 1
    RowPatternMatch (a+ | b c?) by symbol     round 1 by symbol
    . automaton: 0 split 1, 4 · 1 take a · 2 split 1, 3 · 3 jump 7 · 4 take b · 5 split 6, 7 · 6 take c · 7 accept
    . conditions for all rows at once: b; row by row, as they depend on the match: a
    . all rows per match, skip PAST LAST ROW
    . a: SUM(a.volume) < 100
    . b: volume > 50
    . measures n = MATCH_NUMBER()
    . rows that wait for earlier ones: none is older than 2 seconds; rate × 2 seconds ≈ 200 rows
    . rows of open matches: (a+ | b c?) may go on for ever; write WITHIN behind the pattern (grows-with-rows)
    . numbers of matches: MATCH_NUMBER() counts for ever, and symbol may have ever new values; ≤ 1 × values of symbol (grows-with-keys)
      Scan tick                               Catalyst, 100 rows/s

sources, as Catalyst reads them
  tick (feed) -> round 1 by symbol
  . crosses: symbol, price, volume, note, ts

-- two conditions worth ordering
CREATE FUNCTION wide(x STRING) RETURNS INT USING python OPTIONS (callable 'pyarrow.compute:utf8_length', kind 'arrow');
CREATE FUNCTION tidy(x STRING) RETURNS STRING USING python OPTIONS (callable 'pyarrow.compute:utf8_trim_whitespace', kind 'arrow', cost '2e-6', after 'x IS NOT NULL');
CREATE STREAM s (k BIGINT, t STRING, u STRING, ts BIGINT, WATERMARK ts DELAY OF 3);
CREATE CQ both AS SELECT k, t FROM s WHERE wide(t) = 1 AND tidy(u) <> '3';
CREATE CQ beside AS SELECT k, t FROM s WHERE k > 1 AND wide(t) = 1 AND u RLIKE '[0-4]';
----
both
Project k, t
  Select wide(t) = 1 AND tidy(u) <> '3'
    Scan s
=>
Project k, t
  AdaptiveFilter wide(t) = 1 AND tidy(u) <> '3'
    . tidy(u) <> '3' costs 2e-06 s per row
    Scan s

beside
Project k, t
  Select k > 1 AND wide(t) = 1 AND u RLIKE '[0-4]'
    Scan s
=>
Project k, t
  AdaptiveFilter wide(t) = 1 AND u RLIKE '[0-4]'
    Select k > 1
      Scan s

====
-- a guard precedes what it guards, whether it is said in the same words or in stronger ones
CREATE FUNCTION wide(x STRING) RETURNS INT USING python OPTIONS (callable 'pyarrow.compute:utf8_length', kind 'arrow');
CREATE FUNCTION tidy(x STRING) RETURNS STRING USING python OPTIONS (callable 'pyarrow.compute:utf8_trim_whitespace', kind 'arrow', cost '2e-6', after 'x IS NOT NULL');
CREATE STREAM s (k BIGINT, t STRING, u STRING, ts BIGINT, WATERMARK ts DELAY OF 3);
CREATE FUNCTION half(x BIGINT) RETURNS DOUBLE USING python OPTIONS (callable 'pyarrow.compute:sqrt', kind 'arrow', after 'x >= 0');
CREATE CQ guarded AS SELECT k FROM s WHERE half(k) < 9.0 AND wide(t) = 1 AND (k > 0 OR u RLIKE '[5-6]' AND k > 3);
----
guarded
Project k
  Select half(k) < 9.0 AND wide(t) = 1 AND (k > 0 OR u RLIKE '[5-6]' AND k > 3)
    Scan s
=>
Project k
  AdaptiveFilter half(k) < 9.0 AND wide(t) = 1 AND (k > 0 OR u RLIKE '[5-6]' AND k > 3)
    . half(k) < 9.0 after k > 0 OR u RLIKE '[5-6]' AND k > 3
    Scan s

====
-- one condition has no order, nor have comparisons
CREATE FUNCTION wide(x STRING) RETURNS INT USING python OPTIONS (callable 'pyarrow.compute:utf8_length', kind 'arrow');
CREATE FUNCTION tidy(x STRING) RETURNS STRING USING python OPTIONS (callable 'pyarrow.compute:utf8_trim_whitespace', kind 'arrow', cost '2e-6', after 'x IS NOT NULL');
CREATE STREAM s (k BIGINT, t STRING, u STRING, ts BIGINT, WATERMARK ts DELAY OF 3);
CREATE CQ one AS SELECT k, t FROM s WHERE wide(t) = 1 AND k > 1;
CREATE CQ cheap AS SELECT k, t FROM s WHERE k > 1 AND k < 5 AND t LIKE '3%';
CREATE CQ searches AS SELECT k, t FROM s WHERE t RLIKE '[0-4]' AND u RLIKE '[0-4]';
----
one
Project k, t
  Select wide(t) = 1 AND k > 1
    Scan s
=> does not fire

cheap
Project k, t
  Select k > 1 AND k < 5 AND t LIKE '3%'
    Scan s
=> does not fire

searches
Project k, t
  Select t RLIKE '[0-4]' AND u RLIKE '[0-4]'
    Scan s
=> does not fire

====
-- a condition that stands twice is tried once
CREATE FUNCTION wide(x STRING) RETURNS INT USING python OPTIONS (callable 'pyarrow.compute:utf8_length', kind 'arrow');
CREATE FUNCTION tidy(x STRING) RETURNS STRING USING python OPTIONS (callable 'pyarrow.compute:utf8_trim_whitespace', kind 'arrow', cost '2e-6', after 'x IS NOT NULL');
CREATE STREAM s (k BIGINT, t STRING, u STRING, ts BIGINT, WATERMARK ts DELAY OF 3);
CREATE CQ twice AS SELECT k FROM s WHERE wide(t) = 1 AND u RLIKE '[0-4]' AND wide(t) = 1;
----
twice
Project k
  Select wide(t) = 1 AND u RLIKE '[0-4]' AND wide(t) = 1
    Scan s
=>
Project k
  AdaptiveFilter wide(t) = 1 AND u RLIKE '[0-4]'
    Scan s

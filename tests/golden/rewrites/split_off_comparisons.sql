-- comparisons go below functions; LIKE with a leading word is one
CREATE FUNCTION wide(x STRING) RETURNS INT USING python OPTIONS (callable 'pyarrow.compute:utf8_length', kind 'arrow');
CREATE FUNCTION tidy(x STRING) RETURNS STRING USING python OPTIONS (callable 'pyarrow.compute:utf8_trim_whitespace', kind 'arrow', cost '2e-6', after 'x IS NOT NULL');
CREATE STREAM s (k BIGINT, t STRING, u STRING, ts BIGINT, WATERMARK ts DELAY OF 3);
CREATE CQ mixed AS SELECT k, t FROM s WHERE wide(t) = 1 AND k > 1 AND u <> '9' AND t LIKE '3%';
----
mixed
Project k, t
  Select wide(t) = 1 AND k > 1 AND u <> '9' AND t LIKE '3%'
    Scan s
=>
Project k, t
  Select wide(t) = 1
    Select k > 1 AND u <> '9' AND t LIKE '3%'
      Scan s

====
-- beside a function a search stays with it, alone it is Catalyst's
CREATE FUNCTION wide(x STRING) RETURNS INT USING python OPTIONS (callable 'pyarrow.compute:utf8_length', kind 'arrow');
CREATE FUNCTION tidy(x STRING) RETURNS STRING USING python OPTIONS (callable 'pyarrow.compute:utf8_trim_whitespace', kind 'arrow', cost '2e-6', after 'x IS NOT NULL');
CREATE STREAM s (k BIGINT, t STRING, u STRING, ts BIGINT, WATERMARK ts DELAY OF 3);
CREATE CQ together AS SELECT k, t FROM s WHERE k > 1 AND wide(t) = 1 AND t RLIKE '[0-4]';
CREATE CQ alone AS SELECT k, t FROM s WHERE k > 1 AND t RLIKE '[0-4]';
----
together
Project k, t
  Select k > 1 AND wide(t) = 1 AND t RLIKE '[0-4]'
    Scan s
=>
Project k, t
  Select wide(t) = 1 AND t RLIKE '[0-4]'
    Select k > 1
      Scan s

alone
Project k, t
  Select k > 1 AND t RLIKE '[0-4]'
    Scan s
=> does not fire

====
-- a hint keeps searches together
CREATE FUNCTION wide(x STRING) RETURNS INT USING python OPTIONS (callable 'pyarrow.compute:utf8_length', kind 'arrow');
CREATE FUNCTION tidy(x STRING) RETURNS STRING USING python OPTIONS (callable 'pyarrow.compute:utf8_trim_whitespace', kind 'arrow', cost '2e-6', after 'x IS NOT NULL');
CREATE STREAM s (k BIGINT, t STRING, u STRING, ts BIGINT, WATERMARK ts DELAY OF 3);
CREATE CQ hinted AS SELECT /*+ ORDER(policy = 'fixed') */ k FROM s WHERE k > 1 AND t RLIKE '[0-4]' AND u RLIKE '[0-4]';
----
hinted
Project k
  Select k > 1 AND t RLIKE '[0-4]' AND u RLIKE '[0-4]'
    Scan s
=>
Project k
  Select t RLIKE '[0-4]' AND u RLIKE '[0-4]'
    Select k > 1
      Scan s

====
-- nothing to leave to Catalyst
CREATE FUNCTION wide(x STRING) RETURNS INT USING python OPTIONS (callable 'pyarrow.compute:utf8_length', kind 'arrow');
CREATE FUNCTION tidy(x STRING) RETURNS STRING USING python OPTIONS (callable 'pyarrow.compute:utf8_trim_whitespace', kind 'arrow', cost '2e-6', after 'x IS NOT NULL');
CREATE STREAM s (k BIGINT, t STRING, u STRING, ts BIGINT, WATERMARK ts DELAY OF 3);
CREATE CQ only AS SELECT k, t FROM s WHERE wide(t) = 1 AND tidy(u) = '3';
----
only
Project k, t
  Select wide(t) = 1 AND tidy(u) = '3'
    Scan s
=> does not fire

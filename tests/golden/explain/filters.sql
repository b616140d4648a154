CREATE FUNCTION domain(address STRING) RETURNS STRING
  USING python OPTIONS (callable 'penstock.apps.network.lookups:domain', kind 'rows', cost '3e-6');
CREATE FUNCTION entropy(text STRING) RETURNS DOUBLE
  USING python OPTIONS (callable 'penstock.apps.network.lookups:entropy', kind 'rows', after 'text IS NOT NULL');
CREATE FUNCTION listed(address STRING) RETURNS STRING
  USING python OPTIONS (callable 'penstock.apps.network.lookups:domain', kind 'rows', profilable 'false');

CREATE STREAM packet (pid BIGINT, size BIGINT, dest STRING, payload STRING, ts TIMESTAMP,
  WATERMARK ts DELAY OF INTERVAL 1 SECOND) USING feed OPTIONS (workload 'network.r1', rate '1000');

-- Catalyst keeps the comparisons, the rest is ordered where rows are grouped
CREATE CQ traffic AS SELECT dest, SUM(size) AS bytes FROM packet [RANGE 1 MINUTE]
WHERE domain(dest) = 'yahoo.com' AND size > 60 AND payload RLIKE 'login' AND entropy(payload) > 4.5 AND dest LIKE '98.%'
GROUP BY dest;

-- the user chooses, and a look-up with a quota comes last
CREATE CQ watched AS SELECT /*+ ORDER(policy = 'local_swaps', mode = 'shard') */ pid FROM packet
WHERE listed(dest) = 'yahoo.com' AND payload RLIKE 'login' AND entropy(payload) > 4.5;

-- one function has no order
CREATE CQ owners AS SELECT pid, domain(dest) AS owner FROM packet WHERE domain(dest) <> '' AND size > 60;
----
application filters: 1 round on 2 shards, state bounded

query traffic
  Project dest, bytes = `sum(size)`              round 1
    GroupBy dest: sum(size) [tumbling 1 minute]  round 1 by dest
    . groups: a window of 1 minute goes when event time has passed it; ≤ rate × (1 minute + 1 second) ≈ 61,000 rows
      AdaptiveFilter domain(dest) = 'yahoo.com' AND payload RLIKE 'login' AND entropy(payload) > 4.5  before the shuffle, 1,000 rows/s
      . ordered by agreedy, decided on the driver; 1 % of rejected rows is profiled
      . entropy(payload) > 4.5 after payload RLIKE 'login'
      . domain(dest) = 'yahoo.com' costs 3e-06 s per row
        Project size, dest, payload              Catalyst, 1,000 rows/s
          Select size > 60 AND dest LIKE '98.%'  Catalyst, 1,000 rows/s
            Scan packet                          Catalyst, 1,000 rows/s

query watched
  Project pid                     round 1, 1,000 rows/s
    AdaptiveFilter listed(dest) = 'yahoo.com' AND payload RLIKE 'login' AND entropy(payload) > 4.5  round 1, 1,000 rows/s
    . ordered by local_swaps, decided by each shard; 1 % of rejected rows is profiled; the hint ORDER(policy = 'local_swaps', mode = 'shard') asks for it
    . entropy(payload) > 4.5 after payload RLIKE 'login'
    . listed(dest) = 'yahoo.com' last: it is not profiled
      Project pid, dest, payload  Catalyst, 1,000 rows/s
        Scan packet               Catalyst, 1,000 rows/s

query owners
  Project pid, owner = domain(dest)  round 1, 1,000 rows/s
    Select domain(dest) <> ''        before the shuffle, 1,000 rows/s
      Project pid, dest              Catalyst, 1,000 rows/s
        Select size > 60             Catalyst, 1,000 rows/s
          Scan packet                Catalyst, 1,000 rows/s

sources, as Catalyst reads them
  packet (feed) -> round 1 by dest
  . crosses: size, dest, payload
  . where: ((`size` > 60L) AND (`dest` LIKE '98.%'))
  . then: AdaptiveFilter1
  packet (feed) -> round 1 in any shard
  . crosses: pid, dest, payload
  packet (feed) -> round 1 in any shard
  . crosses: pid, dest
  . where: (`size` > 60L)
  . then: Select6

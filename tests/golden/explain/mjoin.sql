CREATE STREAM sale (shop BIGINT, item BIGINT, buyer BIGINT, price DOUBLE, ts TIMESTAMP,
  WATERMARK ts DELAY OF INTERVAL 1 SECOND) USING feed OPTIONS (rate '5000');
CREATE STREAM shop (id BIGINT, region BIGINT, ts TIMESTAMP, WATERMARK ts DELAY OF INTERVAL 1 SECOND) USING feed OPTIONS (rate '20');
CREATE STREAM item (id BIGINT, stock BIGINT, ts TIMESTAMP, WATERMARK ts DELAY OF INTERVAL 1 SECOND) USING feed OPTIONS (rate '300');
CREATE STREAM buyer (id BIGINT, region BIGINT, ts TIMESTAMP, WATERMARK ts DELAY OF INTERVAL 1 SECOND) USING feed OPTIONS (rate '100');

-- a star: what sends most beside the centre is spread with it, the rest is copied
CREATE CQ star AS SELECT s.item, s.price FROM sale s [RANGE 10 SECONDS], shop o [RANGE 1 MINUTE], item i [RANGE 1 MINUTE], buyer b [RANGE 1 MINUTE]
WHERE s.shop = o.id AND s.item = i.id AND s.buyer = b.id AND i.stock > 0;

-- a circle: buyers of the region where the shop is
CREATE CQ local AS SELECT /*+ MJOIN(policy = 'sweep') */ s.item FROM sale s [RANGE 10 SECONDS], shop o [RANGE 1 MINUTE], buyer b [RANGE 1 MINUTE]
WHERE s.shop = o.id AND s.buyer = b.id AND o.region = b.region AND o.region < 9;

-- one key of all stays a window join unless a hint asks; then nothing is copied
CREATE CQ everywhere AS SELECT /*+ MJOIN */ o.id FROM shop o [RANGE 1 MINUTE], item i [RANGE 1 MINUTE], buyer b [RANGE 1 MINUTE]
WHERE o.id = i.id AND i.id = b.id;
CREATE CQ plain AS SELECT o.id FROM shop o [RANGE 1 MINUTE], item i [RANGE 1 MINUTE], buyer b [RANGE 1 MINUTE]
WHERE o.id = i.id AND i.id = b.id;
----
application mjoin: 1 round on 2 shards, state bounded

query star
  Project item = s.item, price = s.price        round 1
    MJoin s.shop = o.id and s.item = i.id and s.buyer = b.id [sliding 10 seconds | sliding 1 minute | sliding 1 minute | sliding 1 minute]  round 1 by s.item
    . MJoin: 4 inputs without a common key (star), all with windows
    . rows of each input probe the others in an order of their own, kept by agreedy in each shard; 1 % of rejected rows is profiled
    . no column is in all inputs: spread by s.item = i.id; o and b are copied to every shard, which is least (120 rows/s)
    . rows of s: a row goes once o and i and b are past its window of 10 seconds; rate(s) × (10 seconds + 1 second) ≈ 55,000 rows
    . rows of o: a row goes once s and i and b are past its window of 1 minute; rate(o) × (1 minute + 1 second) ≈ 1,220 rows
    . rows of i: a row goes once s and o and b are past its window of 1 minute; rate(i) × (1 minute + 1 second) ≈ 18,300 rows
    . rows of b: a row goes once s and o and i are past its window of 1 minute; rate(b) × (1 minute + 1 second) ≈ 6,100 rows
      Project s.shop, s.item, s.buyer, s.price  Catalyst, 5,000 rows/s
        Scan sale as s                          Catalyst, 5,000 rows/s
      Project o.id                              Catalyst, 20 rows/s
        Scan shop as o                          Catalyst, 20 rows/s
      Project i.id                              Catalyst, 300 rows/s
        Select i.stock > 0                      Catalyst, 300 rows/s
          Scan item as i                        Catalyst, 300 rows/s
      Project b.id                              Catalyst, 100 rows/s
        Scan buyer as b                         Catalyst, 100 rows/s

query local
  Project item = s.item                round 1
    MJoin s.shop = o.id and s.buyer = b.id and o.region = b.region [sliding 10 seconds | sliding 1 minute | sliding 1 minute]  round 1 by s.buyer
    . MJoin: the hint MJoin(policy = 'sweep') asks for it
    . policy = 'sweep': the algorithm that keeps the order
    . rows of each input probe the others in an order of their own, kept by sweep in each shard; 1 % of rejected rows is profiled
    . no column is in all inputs: spread by s.buyer = b.id; o is copied to every shard, which is least (20 rows/s)
    . rows of s: a row goes once o and b are past its window of 10 seconds; rate(s) × (10 seconds + 1 second) ≈ 55,000 rows
    . rows of o: a row goes once s and b are past its window of 1 minute; rate(o) × (1 minute + 1 second) ≈ 1,220 rows
    . rows of b: a row goes once s and o are past its window of 1 minute; rate(b) × (1 minute + 1 second) ≈ 6,100 rows
      Project s.shop, s.item, s.buyer  Catalyst, 5,000 rows/s
        Scan sale as s                 Catalyst, 5,000 rows/s
      Project o.id, o.region           Catalyst, 20 rows/s
        Select o.region < 9            Catalyst, 20 rows/s
          Scan shop as o               Catalyst, 20 rows/s
      Project b.id, b.region           Catalyst, 100 rows/s
        Scan buyer as b                Catalyst, 100 rows/s

query everywhere
  Project id = o.id      round 1
    MJoin o.id = i.id and i.id = b.id [sliding 1 minute | sliding 1 minute | sliding 1 minute]  round 1 by o.id
    . MJoin: the hint MJoin asks for it
    . rows of each input probe the others in an order of their own, kept by agreedy in each shard; 1 % of rejected rows is profiled
    . all inputs are spread by o.id = i.id = b.id
    . rows of o: a row goes once i and b are past its window of 1 minute; rate(o) × (1 minute + 1 second) ≈ 1,220 rows
    . rows of i: a row goes once o and b are past its window of 1 minute; rate(i) × (1 minute + 1 second) ≈ 18,300 rows
    . rows of b: a row goes once o and i are past its window of 1 minute; rate(b) × (1 minute + 1 second) ≈ 6,100 rows
      Project o.id       Catalyst, 20 rows/s
        Scan shop as o   Catalyst, 20 rows/s
      Project i.id       Catalyst, 300 rows/s
        Scan item as i   Catalyst, 300 rows/s
      Project b.id       Catalyst, 100 rows/s
        Scan buyer as b  Catalyst, 100 rows/s

query plain
  Project id = o.id      round 1
    WindowJoin o.id = i.id = b.id [sliding 1 minute | sliding 1 minute | sliding 1 minute]  round 1 by o.id
    . MWJoin: 3 inputs, windows on o and i and b; nobody closes the key
    . rows of o: a row goes once i and b are past its window of 1 minute; rate(o) × (1 minute + 1 second) ≈ 1,220 rows
    . rows of i: a row goes once o and b are past its window of 1 minute; rate(i) × (1 minute + 1 second) ≈ 18,300 rows
    . rows of b: a row goes once o and i are past its window of 1 minute; rate(b) × (1 minute + 1 second) ≈ 6,100 rows
      Project o.id       Catalyst, 20 rows/s
        Scan shop as o   Catalyst, 20 rows/s
      Project i.id       Catalyst, 300 rows/s
        Scan item as i   Catalyst, 300 rows/s
      Project b.id       Catalyst, 100 rows/s
        Scan buyer as b  Catalyst, 100 rows/s

sources, as Catalyst reads them
  sale (feed) -> round 1 by s.item
  . crosses: s.shop = `shop`, s.item = `item`, s.buyer = `buyer`, s.price = `price`
  shop (feed) -> round 1 copied to every shard
  . crosses: o.id = `id`
  item (feed) -> round 1 by i.id
  . crosses: i.id = `id`
  . where: (`stock` > 0L)
  buyer (feed) -> round 1 copied to every shard
  . crosses: b.id = `id`
  sale (feed) -> round 1 by s.buyer
  . crosses: s.shop = `shop`, s.item = `item`, s.buyer = `buyer`
  shop (feed) -> round 1 copied to every shard
  . crosses: o.id = `id`, o.region = `region`
  . where: (`region` < 9L)
  buyer (feed) -> round 1 by b.id
  . crosses: b.id = `id`, b.region = `region`
  shop (feed) -> round 1 by o.id
  . crosses: o.id = `id`
  item (feed) -> round 1 by i.id
  . crosses: i.id = `id`
  buyer (feed) -> round 1 by b.id
  . crosses: b.id = `id`

memory of joins: rate × mean stay of a row
  MJoin1
  . memory of s: about 55,000 rows, 2.6 MB (window)
  . memory of o: about 2,440 rows, 58.6 kB (window, each row in 2 shards)
  . memory of i: about 18,300 rows, 439.2 kB (window)
  . memory of b: about 12,200 rows, 292.8 kB (window, each row in 2 shards)
  MJoin3
  . memory of s: about 55,000 rows, 2.2 MB (window)
  . memory of o: about 2,440 rows, 78.1 kB (window, each row in 2 shards)
  . memory of b: about 6,100 rows, 195.2 kB (window)
  MJoin5
  . memory of o: about 1,220 rows, 29.3 kB (window)
  . memory of i: about 18,300 rows, 439.2 kB (window)
  . memory of b: about 6,100 rows, 146.4 kB (window)
  WindowJoin7
  . memory of o: about 1,220 rows, 29.3 kB (window)
  . memory of i: about 18,300 rows, 439.2 kB (window)
  . memory of b: about 6,100 rows, 146.4 kB (window)

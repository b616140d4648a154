-- cars that report one position four times; HAVING's aggregate is projected away
CREATE STREAM CarLoc (car_id BIGINT, xpos INT, at TIMESTAMP, WATERMARK at DELAY OF INTERVAL 10 SECONDS);
CREATE CQ immobile AS SELECT car_id, xpos FROM CarLoc [Range 2 minutes] GROUP BY car_id, xpos HAVING count(*) > 3;
CREATE CQ found_earlier AS
  SELECT car_id, xpos, count(*) AS reports FROM CarLoc [Range 2 minutes, advance 30 seconds] GROUP BY car_id, xpos GFILTER reports > 3;
----
immobile
Project car_id, xpos
  GroupFilter `count(*)` > 3
    GroupBy car_id, xpos: count(*) [tumbling 2 minutes]
      Scan CarLoc

found_earlier
Project car_id, xpos, reports = `count(*)`
  GroupFilter `count(*)` > 3
    GroupBy car_id, xpos: count(*) [sliding 2 minutes advance 30 seconds]
      Scan CarLoc

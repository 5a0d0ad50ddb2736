CREATE TABLE number(n INTEGER PRIMARY KEY, square INTEGER, text TEXT);
WITH RECURSIVE counted(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counted WHERE n < 30000)
INSERT INTO number SELECT n, n * n, printf('%d is %s', n, hex(n * 7919)) FROM counted;
CREATE INDEX by_text ON number(text);
DELETE FROM number WHERE n % 7 = 3;
UPDATE number SET text = text || substr(text, 1, n % 50) WHERE n % 3 = 0;
SELECT count(*), sum(square), max(text), sum(length(text)) FROM number;
SELECT n, text FROM number ORDER BY text DESC LIMIT 20;
SELECT a.n % 100 AS hundred, count(*), group_concat(substr(a.text, 1, 3)) FROM number a JOIN number b ON b.n = a.n / 2
    WHERE a.n < 3000 GROUP BY hundred ORDER BY hundred LIMIT 30;
PRAGMA integrity_check;

PRAGMA cache_size = -200000;
PRAGMA temp_store = MEMORY;
CREATE TABLE number(n INTEGER PRIMARY KEY, text TEXT, share REAL, body TEXT);
WITH RECURSIVE counted(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counted WHERE n < 600000)
INSERT INTO number SELECT n, hex(n * 7919) || '-' || n, n * 1.5, printf('%0270d', n * n) FROM counted;
CREATE INDEX by_text ON number(text);
SELECT count(*), sum(share), max(text) FROM number;
SELECT text FROM number ORDER BY text DESC LIMIT 5;
SELECT count(*), sum(length(a.body)) FROM number a JOIN number b ON a.n = b.n + 1 WHERE a.text > b.text;
DELETE FROM number WHERE n % 7 = 3;
PRAGMA integrity_check;

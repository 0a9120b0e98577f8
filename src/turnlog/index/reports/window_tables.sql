-- The five-hour windows of all quarters of an hour with messages, for engines that recurse.
WITH RECURSIVE
used AS MATERIALIZED (
    SELECT quarter, row_number() OVER (ORDER BY quarter) AS n
    FROM (SELECT DISTINCT quarter FROM messages WHERE counts = 1 AND quarter IS NOT NULL)
),
placed AS (
    SELECT n, quarter, quarter - quarter % 4 AS opening FROM used WHERE n = 1
    UNION ALL
    SELECT
        u.n,
        u.quarter,
        CASE WHEN u.quarter < p.opening + 20 THEN p.opening ELSE u.quarter - u.quarter % 4 END
    FROM placed p JOIN used u ON u.n = p.n + 1
),
windows AS (
    SELECT quarter, opening * 900 AS start, (opening + 20) * 900 AS stop FROM placed
),

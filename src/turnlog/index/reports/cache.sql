-- What requests read from the prompt cache, wrote to it and sent without it, by local day.
-- The cache held what the request before read and wrote. A request that found less than half of that
-- missed: the entry had expired, or something before it had changed. It paid for those tokens again.
-- The first request of a file, and the first after a compaction, cannot miss.
WITH placed AS MATERIALIZED (
    SELECT
        m.file, m.line, m.quarter, m.model, m.input, m.output,
        m.cache_write_5m, m.cache_write_1h, m.cache_read, m.counts,
        lag(m.cache_read + m.cache_write_5m + m.cache_write_1h) OVER w AS held,
        lag(m.line) OVER w AS before
    FROM messages m
    WINDOW w AS (PARTITION BY m.file ORDER BY m.line)
),
judged AS (
    SELECT
        p.*,
        iif(
            p.held > 0 AND p.cache_read * 2 < p.held AND NOT EXISTS (
                SELECT 1 FROM compactions c
                WHERE c.file = p.file AND c.line BETWEEN p.before AND p.line
            ),
            min(p.held - p.cache_read, p.input + p.cache_write_5m + p.cache_write_1h),
            0
        ) AS missed
    FROM placed p
)
SELECT
    date(j.quarter * 900, 'unixepoch', 'localtime') AS day,
    count(*) AS messages,
    sum(j.input) AS input,
    sum(j.cache_write_5m) AS cache_write_5m,
    sum(j.cache_write_1h) AS cache_write_1h,
    sum(j.cache_read) AS cache_read,
    total(j.cache_read) / max(sum(j.input + j.cache_write_5m + j.cache_write_1h + j.cache_read), 1)
        AS hit_rate,
    sum(j.missed > 0) AS misses,
    sum(j.missed) AS missed_tokens
FROM judged j JOIN files f ON f.id = j.file
WHERE j.counts = 1
    AND (:since IS NULL OR j.quarter * 900 > :since - 900)
    AND (:until IS NULL OR j.quarter * 900 < :until)
    AND (:project IS NULL OR instr(lower(f.project), lower(:project)))
    AND (:model IS NULL OR instr(lower(j.model), lower(:model)))
GROUP BY day ORDER BY day;

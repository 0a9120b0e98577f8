-- What requests read from the prompt cache, wrote to it and sent without it, by local day.
-- The cache held what the request before read and wrote. A request that found less than half of that
-- missed: the entry had expired, or something before it had changed. It paid for those tokens again.
-- The first request of a file, and the first after a compaction, cannot miss.
WITH placed AS {{materialized}} (
    SELECT
        m.file, m.line, m.quarter, m.model, m.input, m.output,
        m.cache_write_5m, m.cache_write_1h, m.cache_read, m.counts,
        lag(m.cache_read + m.cache_write_5m + m.cache_write_1h) OVER w AS held,
        lag(m.line) OVER w AS line_before
    FROM messages m
    WINDOW w AS (PARTITION BY m.file ORDER BY m.line)
),
judged AS (
    SELECT
        p.*,
        CASE
            WHEN p.held > 0 AND p.cache_read * 2 < p.held AND NOT EXISTS (
                SELECT 1 FROM compactions c
                WHERE c.file = p.file AND c.line >= p.line_before AND c.line <= p.line
            ) THEN
                CASE
                    WHEN p.held - p.cache_read < p.input + p.cache_write_5m + p.cache_write_1h
                    THEN p.held - p.cache_read
                    ELSE p.input + p.cache_write_5m + p.cache_write_1h
                END
            ELSE 0
        END AS missed
    FROM placed p
)
SELECT
    {{day(j)}} AS day,
    count(*) AS messages,
    sum(j.input) AS input,
    sum(j.cache_write_5m) AS cache_write_5m,
    sum(j.cache_write_1h) AS cache_write_1h,
    sum(j.cache_read) AS cache_read,
    CASE
        WHEN sum(j.input + j.cache_write_5m + j.cache_write_1h + j.cache_read) > 0 THEN
            CAST(sum(j.cache_read) AS DOUBLE)
            / sum(j.input + j.cache_write_5m + j.cache_write_1h + j.cache_read)
        ELSE 0.0
    END AS hit_rate,
    count(CASE WHEN j.missed > 0 THEN 1 END) AS misses,
    sum(j.missed) AS missed_tokens
FROM judged j JOIN files f ON f.id = j.file {{local_times(j)}}
WHERE j.counts = 1 AND {{quarter_filters(j)}}
GROUP BY {{day(j)}} ORDER BY day;

-- Usage per five-hour window, by which the service counts its limits. A window starts at the full
-- hour of its first message; the first message after its end starts the next.
-- Filters choose what is counted, never where windows start. Rates cover the time from the first
-- message to the last or, in the current window, to :now.
{{window_tables}}
taken AS (
    SELECT
        w.start,
        w.stop,
        CASE WHEN :now >= w.start AND :now < w.stop THEN 1 ELSE 0 END AS is_active,
        (
            CASE WHEN :now >= w.start AND :now < w.stop THEN :now ELSE max(m.at) END - min(m.at)
        ) / 3600 AS hours,
        count(*) AS messages,
        sum(m.input + m.output + m.cache_write_5m + m.cache_write_1h + m.cache_read) AS tokens,
        sum(m.input) AS input,
        sum(m.output) AS output,
        sum(m.cache_write_5m) AS cache_write_5m,
        sum(m.cache_write_1h) AS cache_write_1h,
        sum(m.cache_read) AS cache_read,
        sum(m.cost) AS cost_usd,
        sum(m.is_subagent * (m.input + m.output + m.cache_write_5m + m.cache_write_1h + m.cache_read))
            AS agent_tokens,
        coalesce(sum(CASE WHEN m.is_subagent = 1 THEN m.cost END), 0.0) AS agent_cost_usd,
        count(*) - count(m.cost) AS unpriced,
        sum(m.is_understated) AS understated
    FROM messages m JOIN windows w ON w.quarter = m.quarter JOIN files f ON f.id = m.file
    WHERE m.counts = 1
        -- Implied by the next line, as a range that an index can find: a status line asks for the
        -- last hours of years of messages.
        AND m.quarter > coalesce(:since, 0) / 900 - 21
        AND (:since IS NULL OR w.stop > :since)
        AND (:until IS NULL OR w.start < :until)
        AND (:project IS NULL OR {{contains(f.project, :project)}})
        AND (:model IS NULL OR {{contains(m.model, :model)}})
    GROUP BY w.start, w.stop
),
rated AS (
    -- A rate over less than a minute would be meaningless.
    SELECT
        taken.*,
        CASE WHEN hours * 60 > 1 THEN 1 / hours END AS rate,
        (stop - :now) / 3600 AS hours_left
    FROM taken
)
SELECT
    {{iso_time(start)}} AS started,
    {{iso_time(stop)}} AS ends,
    is_active, messages, tokens, input, output, cache_write_5m, cache_write_1h, cache_read,
    cost_usd, agent_tokens, agent_cost_usd,
    tokens * rate AS tokens_per_hour,
    cost_usd * rate AS usd_per_hour,
    CASE WHEN is_active = 1 THEN tokens * (1 + rate * hours_left) END AS projected_tokens,
    CASE WHEN is_active = 1 THEN cost_usd * (1 + rate * hours_left) END AS projected_usd,
    unpriced, understated
FROM rated ORDER BY start;

-- Usage per five-hour window, by which the service counts its limits. A window starts at the full
-- hour of its first message; the first message after its end starts the next.
-- Filters choose what is counted, never where windows start. Rates cover the time from the first
-- message to the last or, in the current window, to :now.
WITH RECURSIVE
used AS MATERIALIZED (
    SELECT quarter, row_number() OVER (ORDER BY quarter) AS n
    FROM (SELECT DISTINCT quarter FROM messages WHERE counts = 1 AND quarter IS NOT NULL)
),
placed AS (
    SELECT n, quarter, quarter / 4 * 4 AS first FROM used WHERE n = 1
    UNION ALL
    SELECT u.n, u.quarter, iif(u.quarter < p.first + 20, p.first, u.quarter / 4 * 4)
    FROM placed p JOIN used u ON u.n = p.n + 1
),
windows AS (
    SELECT quarter, first * 900 AS start, (first + 20) * 900 AS stop FROM placed
),
taken AS (
    SELECT
        w.start,
        w.stop,
        :now >= w.start AND :now < w.stop AS is_active,
        (iif(:now >= w.start AND :now < w.stop, :now, max(m.at)) - min(m.at)) / 3600 AS hours,
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
        total(iif(m.is_subagent, m.cost, 0)) AS agent_cost_usd,
        sum(m.cost IS NULL) AS unpriced,
        sum(m.is_understated) AS understated
    FROM messages m JOIN windows w ON w.quarter = m.quarter JOIN files f ON f.id = m.file
    WHERE m.counts = 1
        AND (:since IS NULL OR w.stop > :since)
        AND (:until IS NULL OR w.start < :until)
        AND (:project IS NULL OR instr(lower(f.project), lower(:project)))
        AND (:model IS NULL OR instr(lower(m.model), lower(:model)))
    GROUP BY w.start
),
rated AS (
    -- A rate over less than a minute would be meaningless.
    SELECT *, iif(hours * 60 > 1, 1 / hours, NULL) AS rate, (stop - :now) / 3600 AS hours_left
    FROM taken
)
SELECT
    strftime('%Y-%m-%dT%H:%M:%SZ', start, 'unixepoch') AS started,
    strftime('%Y-%m-%dT%H:%M:%SZ', stop, 'unixepoch') AS ends,
    is_active, messages, tokens, input, output, cache_write_5m, cache_write_1h, cache_read,
    cost_usd, agent_tokens, agent_cost_usd,
    tokens * rate AS tokens_per_hour,
    cost_usd * rate AS usd_per_hour,
    iif(is_active, tokens * (1 + rate * hours_left), NULL) AS projected_tokens,
    iif(is_active, cost_usd * (1 + rate * hours_left), NULL) AS projected_usd,
    unpriced, understated
FROM rated ORDER BY start;

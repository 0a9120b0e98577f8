-- What was done, each thing once: figures by file, quarter, model, branch and sub-agents.
CREATE VIEW work AS
SELECT
    file, quarter, model, branch, is_subagent,
    0 AS turns,
    0.0 AS seconds,            -- working time: as the client measured it, else elapsed
    0.0 AS elapsed,            -- from prompts to the last answer or result
    count(*) AS messages,
    sum(input) + sum(output) + sum(cache_write_5m) + sum(cache_write_1h) + sum(cache_read)
        AS tokens,
    sum(input) AS input,
    sum(output) AS output,
    sum(cache_write_5m) AS cache_write_5m,
    sum(cache_write_1h) AS cache_write_1h,
    sum(cache_read) AS cache_read,
    sum(cost) AS cost,
    count(*) - count(cost) AS unpriced, -- messages that are not in the cost
    sum(is_understated) AS understated,
    0 AS calls,
    0 AS errors,
    0 AS added,
    0 AS removed
FROM messages WHERE counts = 1 GROUP BY file, quarter, model, branch, is_subagent
UNION ALL
SELECT
    file, quarter, model, branch, is_subagent,
    0, 0.0, 0.0, 0, 0, 0, 0, 0, 0, 0, NULL, 0, 0,
    count(*), count(CASE WHEN is_error = 1 AND is_rejected = 0 THEN 1 END), sum(added), sum(removed)
FROM calls WHERE counts = 1 GROUP BY file, quarter, model, branch, is_subagent
UNION ALL
SELECT
    file, quarter, model, branch, 0,
    1, coalesce(working, ended - p.at), ended - p.at, 0, 0, 0, 0, 0, 0, 0, NULL, 0, 0,
    0, 0, 0, 0
FROM prompts p
-- Commands that no model answered are no turns.
WHERE counts = 1 AND (model IS NOT NULL OR kind NOT IN ('command', 'bash_input'));

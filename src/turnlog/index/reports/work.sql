-- The one body of all reports that add up work; its parts come from GROUPINGS.
{{tables}}SELECT
    {{keys}},
    sum(w.turns) AS turns,
    sum(w.calls) AS calls,
    sum(w.errors) AS errors,
    sum(w.tokens) AS tokens,
    sum(w.input) AS input,
    sum(w.output) AS output,
    sum(w.cache_write_5m) AS cache_write_5m,
    sum(w.cache_write_1h) AS cache_write_1h,
    sum(w.cache_read) AS cache_read,
    CASE WHEN sum(w.unpriced) > 0 THEN sum(w.cost) ELSE coalesce(sum(w.cost), 0.0) END AS cost_usd,
    sum(CASE WHEN w.is_subagent = 1 THEN w.tokens ELSE 0 END) AS agent_tokens,
    coalesce(sum(CASE WHEN w.is_subagent = 1 THEN w.cost END), 0.0) AS agent_cost_usd,
    coalesce(sum(w.seconds), 0.0) AS seconds,
    coalesce(sum(w.elapsed), 0.0) AS elapsed_seconds,
    sum(w.added) AS added,
    sum(w.removed) AS removed,
    sum(w.unpriced) AS unpriced,
    sum(w.understated) AS understated
FROM work w JOIN files f ON f.id = w.file {{local_times(w)}}{{joins}}
WHERE {{quarter_filters(w)}}
GROUP BY {{group}} ORDER BY {{order}};

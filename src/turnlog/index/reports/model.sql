-- Usage per model, the most expensive first. A turn belongs to the model that answered first.
SELECT
    w.model AS model,
    count(DISTINCT iif(w.messages, coalesce(f.session, f.path), NULL)) AS sessions,
    sum(w.turns) AS turns,
    sum(w.calls) AS calls,
    sum(w.errors) AS errors,
    sum(w.tokens) AS tokens,
    sum(w.input) AS input,
    sum(w.output) AS output,
    sum(w.cache_write_5m) AS cache_write_5m,
    sum(w.cache_write_1h) AS cache_write_1h,
    sum(w.cache_read) AS cache_read,
    iif(sum(w.unpriced), sum(w.cost), total(w.cost)) AS cost_usd,
    sum(iif(w.is_subagent, w.tokens, 0)) AS agent_tokens,
    total(iif(w.is_subagent, w.cost, 0)) AS agent_cost_usd,
    total(w.seconds) AS seconds,
    total(w.elapsed) AS elapsed_seconds,
    sum(w.added) AS added,
    sum(w.removed) AS removed,
    sum(w.unpriced) AS unpriced,
    sum(w.understated) AS understated
FROM work w JOIN files f ON f.id = w.file
WHERE (:since IS NULL OR w.quarter * 900 > :since - 900)
    AND (:until IS NULL OR w.quarter * 900 < :until)
    AND (:project IS NULL OR instr(lower(f.project), lower(:project)))
    AND (:model IS NULL OR instr(lower(w.model), lower(:model)))
GROUP BY w.model ORDER BY cost_usd DESC, tokens DESC, w.model;

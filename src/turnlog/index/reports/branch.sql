-- Usage per git branch, with its pull requests and commits, the most expensive first.
-- A pull request belongs to the branch of its session; commits are known if results name them.
WITH linked AS MATERIALIZED (
    SELECT DISTINCT
        f.project,
        p.url,
        (
            SELECT m.branch FROM messages m WHERE m.file = p.file AND m.line < p.line
            ORDER BY m.line DESC LIMIT 1
        ) AS branch
    FROM pulls p JOIN files f ON f.id = p.file
),
made AS MATERIALIZED (
    SELECT DISTINCT f.project, c.branch, c.hash
    FROM commits c JOIN files f ON f.id = c.file
)
SELECT
    f.project AS project,
    w.branch AS branch,
    (
        SELECT group_concat(l.url, ' ') FROM linked l
        WHERE l.project IS f.project AND l.branch IS w.branch
    ) AS pull_requests,
    (
        SELECT group_concat(m.hash, ' ') FROM made m
        WHERE m.project IS f.project AND m.branch IS w.branch
    ) AS commits,
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
GROUP BY f.project, w.branch ORDER BY cost_usd DESC, tokens DESC, f.project, w.branch;

-- Calls, failures and durations per tool, including waiting time, the most frequent first.
-- All tools of an MCP server form one row. Calls that the user denied did not fail: they never ran.
SELECT
    iif(
        c.tool GLOB 'mcp__?*__*',
        substr(c.tool, 1, instr(substr(c.tool, 6), '__') + 6) || '*',
        c.tool
    ) AS name,
    count(DISTINCT coalesce(f.session, f.path)) AS sessions,
    count(*) AS calls,
    sum(c.is_subagent) AS agent_calls,
    coalesce(sum(c.is_error AND NOT c.is_rejected), 0) AS errors,
    coalesce(avg(iif(c.is_rejected, NULL, c.is_error)), 0) AS error_rate,
    total(c.ended - c.at) AS seconds,
    total(c.ended - c.at) / max(count(c.ended), 1) AS seconds_each,
    sum(c.added) AS added,
    sum(c.removed) AS removed,
    sum(c.is_rejected) AS rejected
FROM calls c JOIN files f ON f.id = c.file
WHERE c.counts = 1
    AND (:since IS NULL OR c.at >= :since)
    AND (:until IS NULL OR c.at < :until)
    AND (:project IS NULL OR instr(lower(f.project), lower(:project)))
    AND (:model IS NULL OR instr(lower(c.model), lower(:model)))
GROUP BY name ORDER BY calls DESC, name;

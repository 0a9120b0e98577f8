-- Calls, failures and durations per tool, including waiting time, the most frequent first.
-- All tools of an MCP server form one row. Calls that the user denied did not fail: they never ran.
SELECT
    {{tool_name(c.tool)}} AS name,
    count(DISTINCT coalesce(f.session, f.path)) AS sessions,
    count(*) AS calls,
    sum(c.is_subagent) AS agent_calls,
    count(CASE WHEN c.is_error = 1 AND c.is_rejected = 0 THEN 1 END) AS errors,
    coalesce(avg(CASE WHEN c.is_rejected = 0 THEN c.is_error END), 0) AS error_rate,
    coalesce(sum(c.ended - c.at), 0.0) AS seconds,
    coalesce(sum(c.ended - c.at), 0.0) / CASE WHEN count(c.ended) > 0 THEN count(c.ended) ELSE 1 END
        AS seconds_each,
    sum(c.added) AS added,
    sum(c.removed) AS removed,
    sum(c.is_rejected) AS rejected
FROM calls c JOIN files f ON f.id = c.file
WHERE c.counts = 1 AND {{filters(c)}}
GROUP BY {{tool_name(c.tool)}} ORDER BY calls DESC, name;

-- The tools and commands that fail most often; calls that the user denied did not fail. `program` shortens a command to what it runs.
-- SQLite takes bare columns from the row with max(): the error is that of the last failed call.
SELECT
    c.tool AS tool,
    program(c.command) AS command,
    count(*) AS calls,
    coalesce(sum(c.is_error AND NOT c.is_rejected), 0) AS errors,
    avg(iif(c.is_rejected, NULL, c.is_error)) AS error_rate,
    strftime(
        '%Y-%m-%dT%H:%M:%SZ', max(iif(c.is_error AND NOT c.is_rejected, c.at, NULL)), 'unixepoch'
    ) AS last,
    c.error AS last_error,
    sum(c.is_rejected) AS rejected
FROM calls c JOIN files f ON f.id = c.file
WHERE c.counts = 1
    AND (:since IS NULL OR c.at >= :since)
    AND (:until IS NULL OR c.at < :until)
    AND (:project IS NULL OR instr(lower(f.project), lower(:project)))
    AND (:model IS NULL OR instr(lower(c.model), lower(:model)))
GROUP BY c.tool, program(c.command) HAVING errors > 0 ORDER BY errors DESC, calls, tool, 2;

-- The tools and commands that fail most often. `program` shortens a command to what it runs.
-- SQLite takes bare columns from the row with max(): the error is that of the last failed call.
SELECT
    c.tool AS tool,
    program(c.command) AS command,
    count(*) AS calls,
    sum(c.is_error) AS errors,
    avg(c.is_error) AS error_rate,
    strftime('%Y-%m-%dT%H:%M:%SZ', max(iif(c.is_error, c.at, NULL)), 'unixepoch') AS last,
    c.error AS last_error
FROM calls c JOIN files f ON f.id = c.file
WHERE c.counts = 1
    AND (:since IS NULL OR c.at >= :since)
    AND (:until IS NULL OR c.at < :until)
    AND (:project IS NULL OR instr(lower(f.project), lower(:project)))
    AND (:model IS NULL OR instr(lower(c.model), lower(:model)))
GROUP BY c.tool, program(c.command) HAVING errors > 0 ORDER BY errors DESC, calls, tool, 2;

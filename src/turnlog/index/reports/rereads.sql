-- The files that were read again most often: each read but the first of a session is a re-read.
-- `unchanged` counts those without a change in between: the call before on the file was a read, too.
-- Sub-agents have a context of their own, so each file of a session is counted by itself.
WITH touched AS (
    SELECT
        c.path,
        coalesce(f.session, f.path) AS session,
        c.at,
        c.tool,
        row_number() OVER (
            PARTITION BY c.file, c.path, CASE WHEN c.tool = 'Read' THEN 1 ELSE 0 END
            ORDER BY c.line, c.key
        ) AS nth,
        lag(c.tool) OVER (PARTITION BY c.file, c.path ORDER BY c.line, c.key) AS tool_before
    FROM calls c JOIN files f ON f.id = c.file
    WHERE c.counts = 1 AND {{filters(c)}}
        AND c.path IS NOT NULL AND coalesce(c.is_error, 0) = 0
        AND c.tool IN ('Read', 'Edit', 'MultiEdit', 'NotebookEdit', 'Write')
)
SELECT
    path,
    count(DISTINCT session) AS sessions,
    count(*) AS reads,
    count(CASE WHEN nth > 1 THEN 1 END) AS rereads,
    count(CASE WHEN nth > 1 AND tool_before = 'Read' THEN 1 END) AS unchanged,
    {{iso_time(max(t.at))}} AS last
FROM touched t WHERE t.tool = 'Read'
GROUP BY path ORDER BY rereads DESC, reads DESC, path;

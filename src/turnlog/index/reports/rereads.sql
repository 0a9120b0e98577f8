-- The files that were read again most often: each read but the first of a session is a re-read.
-- `unchanged` counts those without a change in between: the call before on the file was a read, too.
-- Sub-agents have a context of their own, so each file of a session is counted by itself.
WITH touched AS (
    SELECT
        c.path,
        coalesce(f.session, f.path) AS session,
        c.at,
        c.tool = 'Read' AS is_read,
        row_number() OVER (PARTITION BY c.file, c.path, c.tool = 'Read' ORDER BY c.line) AS nth,
        lag(c.tool) OVER (PARTITION BY c.file, c.path ORDER BY c.line) AS before
    FROM calls c JOIN files f ON f.id = c.file
    WHERE c.counts = 1
        AND (:since IS NULL OR c.at >= :since)
        AND (:until IS NULL OR c.at < :until)
        AND (:project IS NULL OR instr(lower(f.project), lower(:project)))
        AND (:model IS NULL OR instr(lower(c.model), lower(:model)))
        AND c.path IS NOT NULL AND c.is_error IS NOT 1
        AND c.tool IN ('Read', 'Edit', 'MultiEdit', 'NotebookEdit', 'Write')
)
SELECT
    path,
    count(DISTINCT session) AS sessions,
    count(*) AS reads,
    sum(nth > 1) AS rereads,
    sum(nth > 1 AND before = 'Read') AS unchanged,
    strftime('%Y-%m-%dT%H:%M:%SZ', max(at), 'unixepoch') AS last
FROM touched WHERE is_read
GROUP BY path ORDER BY rereads DESC, reads DESC, path;

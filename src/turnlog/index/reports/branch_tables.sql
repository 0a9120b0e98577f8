-- Pull requests and commits by branch. A pull request is of the branch that its session was on when
-- it was opened; commits are known where results name them.
WITH opened AS (
    SELECT p.file, p.url, max(m.line) AS line
    FROM pulls p LEFT JOIN messages m ON m.file = p.file AND m.line < p.line
    GROUP BY p.file, p.line, p.url
),
linked AS {{materialized}} (
    SELECT project, branch, {{joined(url)}} AS urls
    FROM (
        SELECT DISTINCT f.project, m.branch, o.url
        FROM opened o JOIN files f ON f.id = o.file
            LEFT JOIN messages m ON m.file = o.file AND m.line = o.line
    ) requests
    GROUP BY project, branch
),
made AS {{materialized}} (
    SELECT project, branch, {{joined(hash)}} AS hashes
    FROM (
        SELECT DISTINCT f.project, c.branch, c.hash
        FROM commits c JOIN files f ON f.id = c.file
    ) hashes
    GROUP BY project, branch
)

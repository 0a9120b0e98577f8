-- Pull requests and commits by branch. A pull request is of the branch that its session was on when
-- it was opened; commits are known where results name them.
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

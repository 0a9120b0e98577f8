-- The tools and commands that fail most often; calls that the user denied did not fail. `program` shortens a command to what it runs.
-- The error is that of the last failed call.
WITH named AS {{materialized}} (
    SELECT
        c.tool,
        {{program(c)}} AS command,
        c.at,
        c.key,
        c.error,
        c.is_rejected,
        CASE WHEN c.is_rejected = 0 THEN c.is_error END AS failed
    FROM calls c JOIN files f ON f.id = c.file
    WHERE c.counts = 1 AND {{filters(c)}}
),
failures AS (
    SELECT
        tool, command, error,
        row_number() OVER (PARTITION BY tool, command ORDER BY n.at DESC, n.key DESC) AS nth
    FROM named n WHERE failed = 1
),
latest AS {{materialized}} (SELECT tool, command, error FROM failures WHERE nth = 1),
counted AS (
    SELECT
        tool,
        command,
        count(*) AS calls,
        coalesce(sum(failed), 0) AS errors,
        avg(failed) AS error_rate,
        max(CASE WHEN failed = 1 THEN n.at END) AS last_at,
        sum(is_rejected) AS rejected
    FROM named n
    GROUP BY tool, command
)
SELECT
    n.tool AS tool,
    n.command AS command,
    n.calls AS calls,
    n.errors AS errors,
    n.error_rate AS error_rate,
    {{iso_time(n.last_at)}} AS last,
    l.error AS last_error,
    n.rejected AS rejected
FROM counted n JOIN latest l ON l.tool = n.tool AND {{same(l.command, n.command)}}
ORDER BY errors DESC, calls, tool, command;

-- How long calls took, by tool, including waiting time: nearest-rank quantiles in seconds.
-- All tools of an MCP server form one row. Calls without a result or without times are left out.
WITH timed AS (
    SELECT
        {{tool_name(c.tool)}} AS name,
        CASE WHEN c.ended > c.at THEN c.ended - c.at ELSE 0.0 END AS took
    FROM calls c JOIN files f ON f.id = c.file
    WHERE c.counts = 1 AND {{filters(c)}}
        AND c.ended IS NOT NULL AND c.at IS NOT NULL
),
ranked AS (
    SELECT
        name,
        took,
        row_number() OVER (PARTITION BY name ORDER BY took) AS nth,
        count(*) OVER (PARTITION BY name) AS calls
    FROM timed
)
-- A quantile is the first duration that its share of the calls does not exceed.
SELECT
    name,
    calls,
    sum(took) AS seconds,
    min(took) AS fastest,
    min(CASE WHEN nth * 100 >= calls * 25 THEN took END) AS p25,
    min(CASE WHEN nth * 100 >= calls * 50 THEN took END) AS p50,
    min(CASE WHEN nth * 100 >= calls * 75 THEN took END) AS p75,
    min(CASE WHEN nth * 100 >= calls * 95 THEN took END) AS p95,
    min(CASE WHEN nth * 100 >= calls * 99 THEN took END) AS p99,
    max(took) AS slowest
FROM ranked GROUP BY name, calls ORDER BY round(sum(took), 6) DESC, name;

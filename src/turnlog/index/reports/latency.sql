-- How long calls took, by tool, including waiting time: nearest-rank quantiles in seconds.
-- All tools of an MCP server form one row. Calls without a result or without times are left out.
WITH timed AS (
    SELECT
        iif(
            c.tool GLOB 'mcp__?*__*',
            substr(c.tool, 1, instr(substr(c.tool, 6), '__') + 6) || '*',
            c.tool
        ) AS name,
        max(c.ended - c.at, 0.0) AS took
    FROM calls c JOIN files f ON f.id = c.file
    WHERE c.counts = 1
        AND (:since IS NULL OR c.at >= :since)
        AND (:until IS NULL OR c.at < :until)
        AND (:project IS NULL OR instr(lower(f.project), lower(:project)))
        AND (:model IS NULL OR instr(lower(c.model), lower(:model)))
        AND c.ended IS NOT NULL AND c.at IS NOT NULL
),
ranked AS (
    SELECT
        name,
        took,
        row_number() OVER (PARTITION BY name ORDER BY took) AS rank,
        count(*) OVER (PARTITION BY name) AS calls
    FROM timed
)
-- The rank of a quantile is its share of the calls, rounded up: (calls * percent + 99) / 100.
SELECT
    name,
    calls,
    sum(took) AS seconds,
    min(took) AS fastest,
    max(iif(rank = (calls * 25 + 99) / 100, took, NULL)) AS p25,
    max(iif(rank = (calls * 50 + 99) / 100, took, NULL)) AS p50,
    max(iif(rank = (calls * 75 + 99) / 100, took, NULL)) AS p75,
    max(iif(rank = (calls * 95 + 99) / 100, took, NULL)) AS p95,
    max(iif(rank = (calls * 99 + 99) / 100, took, NULL)) AS p99,
    max(took) AS slowest
FROM ranked GROUP BY name, calls ORDER BY seconds DESC, name;

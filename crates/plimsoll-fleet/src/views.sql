-- Views of a data set of `plimsoll fleet collect`, for DuckDB. Paths are relative: start in the folder of this file.
--
--   $ cd FOLDER/data && duckdb -init views.sql
--   D SELECT class, trial_group, metric, hosts, median FROM class_metrics;
--
-- run, host and task are parts of the paths (Hive-style partitions). They are strings: a task may be named 007.

-- One row per task of the plan, whatever its state. Hosts of one class are comparable.
CREATE OR REPLACE VIEW tasks AS
SELECT * FROM read_parquet('tasks.parquet');

-- One row per trial. Trials of one trial_group differ only in their repeat.
CREATE OR REPLACE VIEW trials AS
SELECT *, regexp_replace(trial, '#[0-9]+$', '') AS trial_group
FROM read_parquet(
    'run=*/host=*/task=*/trials.parquet', hive_partitioning = true, hive_types_autocast = false
);

-- One row per value of a trial, in `unit`. As in the report, the times of the phases of the compression workload are headline
-- metrics, except for the time to release the memory.
CREATE OR REPLACE VIEW metrics AS
SELECT
    * EXCLUDE (metric, headline),
    headline OR (workload = 'compression' AND metric = 'seconds' AND coalesce(phase, 'release') <> 'release') AS headline,
    regexp_replace(trial, '#[0-9]+$', '') AS trial_group,
    coalesce(phase || '.', '') || metric AS metric
FROM read_parquet(
    'run=*/host=*/task=*/metrics.parquet', hive_partitioning = true, hive_types_autocast = false
);

-- One row per host of a run, with its last settings.
CREATE OR REPLACE VIEW hosts AS
SELECT
    run,
    host,
    count(*) AS tasks,
    last(class ORDER BY ended) AS class,
    last(kernel ORDER BY ended) AS kernel,
    last(machine ORDER BY ended) AS machine,
    last(cpus ORDER BY ended) AS cpus,
    last(memory_bytes ORDER BY ended) AS memory_bytes,
    last(swap ORDER BY ended) AS swap,
    last(settings ORDER BY ended) AS settings
FROM tasks
WHERE state = 'done'
GROUP BY run, host;

-- One row per setting of a host. The kernel and the zram algorithm count as settings; a host without zram has `none`.
CREATE OR REPLACE VIEW settings AS
SELECT run, host, class, setting, settings ->> ('$."' || setting || '"') AS value
FROM (SELECT *, unnest(json_keys(settings)) AS setting FROM hosts)
UNION ALL
SELECT run, host, class, 'kernel', kernel FROM hosts
UNION ALL
SELECT run, host, class, 'zram algorithm', coalesce(nullif(array_to_string(swap ->> '$[*].algorithm', ', '), ''), 'none')
FROM hosts;

-- Settings in which a host differs from the majority of its class. Unlike the report, without the swap devices, the SHA-256 of the
-- program, and settings that the host does not have.
CREATE OR REPLACE VIEW setting_differences AS
WITH counted AS (
    SELECT run, class, setting, value, count(*) AS hosts FROM settings GROUP BY ALL
),
majorities AS (
    SELECT run, class, setting, arg_max(value, hosts) AS majority
    FROM counted
    GROUP BY run, class, setting
    HAVING max(hosts) * 2 > sum(hosts)
)
SELECT s.run, s.host, s.class, s.setting, s.value, m.majority
FROM settings AS s JOIN majorities AS m USING (run, class, setting)
WHERE s.value IS DISTINCT FROM m.majority;

-- One row per host, group and metric: the median of the trustworthy values.
CREATE OR REPLACE VIEW host_metrics AS
SELECT m.run, h.class, t.host, m.workload, m.trial_group, m.metric, any_value(m.unit) AS unit,
    bool_or(m.headline) AS headline, count(*) AS trials, median(m.value) AS value
FROM metrics AS m JOIN tasks AS t USING (run, task) JOIN hosts AS h ON h.run = t.run AND h.host = t.host
WHERE m.trusted AND t.state = 'done'
GROUP BY m.run, h.class, t.host, m.workload, m.trial_group, m.metric;

-- One row per class, group and metric: the distribution over the hosts of the class.
CREATE OR REPLACE VIEW class_metrics AS
WITH medians AS (
    SELECT run, class, trial_group, metric, median(value) AS median FROM host_metrics GROUP BY ALL
)
SELECT
    run, class, trial_group, metric, any_value(unit) AS unit, bool_or(headline) AS headline, count(*) AS hosts,
    min(value) AS min, quantile_cont(value, 0.1) AS p10, quantile_cont(value, 0.25) AS p25,
    any_value(m.median) AS median, quantile_cont(value, 0.75) AS p75, quantile_cont(value, 0.9) AS p90,
    max(value) AS max, median(abs(value - m.median)) AS mad
FROM host_metrics JOIN medians AS m USING (run, class, trial_group, metric)
GROUP BY run, class, trial_group, metric;

-- Hosts far from the median of their class, by the rule of `plimsoll fleet report` for classes of four hosts and more: more than 5%
-- of the median, and more than 7 + 72 / hosts median absolute deviations. Includes metrics that are not headline metrics: add
-- `WHERE headline` to match the report.
CREATE OR REPLACE VIEW outliers AS
SELECT
    h.run, h.class, h.host, h.trial_group, h.metric, h.headline, h.unit, h.value, c.median, c.hosts,
    abs(h.value - c.median) / nullif(c.mad, 0) AS mads
FROM host_metrics AS h JOIN class_metrics AS c USING (run, class, trial_group, metric)
WHERE c.hosts >= 4
    AND abs(h.value - c.median) > 0.05 * abs(c.median)
    AND abs(h.value - c.median) > (7 + 72.0 / c.hosts) * c.mad;

-- One row per sample, ten per second; t_ns is the time since the start of the recording.
CREATE OR REPLACE VIEW samples AS
SELECT * FROM read_parquet(
    'run=*/host=*/task=*/samples.parquet', hive_partitioning = true, hive_types_autocast = false, union_by_name = true
);

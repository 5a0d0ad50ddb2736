//! The timeline: nothing invented, nothing lost that can be seen, the layers' sum exact.

use plimsoll_model::categories::INPUTS;
use plimsoll_model::categories::categories;
use plimsoll_model::columns::col;
use plimsoll_model::columns::{COLUMNS, Row};
use plimsoll_model::recording::Samples;
use plimsoll_report::analysis::frame::Machine;
use plimsoll_report::analysis::gauges::gauge;
use plimsoll_report::analysis::timeline::timeline;
use proptest::prelude::*;

/// A row whose layers are plausible, of `mem_total` bytes.
fn row(t_ns: u64, mem_total: i64, free: i64, anon: i64, faults: i64) -> Row {
    let mut row = Row::empty(t_ns);
    for (column, value) in [
        (col::MEM_TOTAL, mem_total),
        (col::MEM_FREE, free),
        (col::BUFFERS, 10),
        (col::CACHED, 1001),
        (col::ANON_PAGES, anon),
        (col::SLAB_UNRECLAIMABLE, 77),
        (col::PGFAULT, faults),
        (col::TARGET_RESIDENT, free),
    ] {
        row.set(column, value);
    }
    row
}

const MACHINE: Machine = Machine {
    page_size: 4096,
    cpus: 2,
};

/// A level, a rate, and one whose columns are never there.
fn lines() -> [usize; 3] {
    [gauge::TARGET_RESIDENT, gauge::MINOR, gauge::CGROUP_USAGE]
}

#[test]
fn few_samples_are_shown_as_they_are() {
    let rows: Vec<Row> = (0..20)
        .map(|i| row(i * 100_000_000, 9999, 500 + i as i64, 3, 50 * i as i64))
        .collect();
    let samples = Samples::from_rows(&rows);
    let line = timeline(&samples, MACHINE, 10, 0..u64::MAX, 100, &lines());
    assert_eq!(line.t_ns, samples.t_ns());
    assert_eq!(line.samples, vec![1; 20]);
    for (index, row) in rows.iter().enumerate() {
        let layers: Vec<i64> = line.layers.iter().map(|layer| layer[index].unwrap()).collect();
        assert_eq!(layers, categories(row).unwrap().bytes());
        assert_eq!(line.lines[0].mean[index], Some(500.0 + index as f64));
        assert_eq!(line.lines[2].max[index], None);
    }
    assert_eq!(line.lines[1].mean[0], None, "a rate needs two samples");
    assert_eq!(line.lines[1].mean[7], Some(500.0), "50 in a tenth of a second");
}

#[test]
fn a_missed_tick_is_a_gap_and_jitter_is_not() {
    let times = [0, 104, 199, 301, 620, 700].map(|ms| ms * 1_000_000);
    let rows: Vec<Row> = times.iter().map(|&t| row(t, 9999, 5, 3, 0)).collect();
    let line = timeline(
        &Samples::from_rows(&rows),
        MACHINE,
        10,
        0..u64::MAX,
        100,
        &lines(),
    );
    assert_eq!(line.samples, [1, 1, 1, 1, 0, 1, 1]);
    assert_eq!(line.t_ns[4], 460_500_000, "in the middle of what is missing");
    assert!(line.layers.iter().all(|layer| layer[4].is_none()));
    assert_eq!(line.lines[0].mean[4], None);
}

#[test]
fn a_trial_is_a_slice() {
    let rows: Vec<Row> = (0..20).map(|i| row(i * 100, 9999, 5, 3, 0)).collect();
    let line = timeline(&Samples::from_rows(&rows), MACHINE, 100, 500..900, 100, &[]);
    assert_eq!(line.t_ns, [500, 600, 700, 800]);
    assert!(
        timeline(&Samples::from_rows(&rows), MACHINE, 10, 5000..9000, 100, &[])
            .t_ns
            .is_empty()
    );
    assert!(
        timeline(&Samples::default(), MACHINE, 10, 0..9000, 100, &[])
            .t_ns
            .is_empty()
    );
}

#[test]
fn a_peak_of_one_sample_survives_an_hour_at_100_hz() {
    let rows: Vec<Row> = (0..360_000_u64)
        .map(|i| {
            let free = if i == 123_456 { 8000 } else { 100 };
            row(i * 10_000_000, 9999, free, 3, i as i64)
        })
        .collect();
    let samples = Samples::from_rows(&rows);
    drop(rows);
    let start = std::time::Instant::now();
    let line = timeline(&samples, MACHINE, 100, 0..u64::MAX, 2000, &lines());
    eprintln!("timeline of {} samples: {:?}", samples.len(), start.elapsed());
    assert!((1000..=2000).contains(&line.t_ns.len()), "{}", line.t_ns.len());
    assert_eq!(
        line.samples.iter().map(|&count| count as usize).sum::<usize>(),
        samples.len()
    );
    let max = line.lines[0].max.iter().flatten().copied().fold(0.0, f64::max);
    assert_eq!(max, 8000.0);
    assert!(line.samples.iter().all(|&count| count > 0), "no gap was invented");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn the_layers_need_no_other_columns_than_they_say(
        values in proptest::collection::vec(proptest::option::weighted(0.9, 0..1_i64 << 40), COLUMNS.len()),
    ) {
        let mut row = Row::empty(7);
        for (column, value) in values.iter().enumerate() {
            if let Some(value) = value {
                row.set(column, *value);
            }
        }
        let samples = Samples::from_rows(&[row]);
        prop_assert_eq!(categories(&samples.row_of(0, INPUTS)), categories(&row));
    }

    #[test]
    fn layers_sum_to_the_total_and_lines_to_the_samples(
        steps in proptest::collection::vec((1..400_u64, 0..9000_i64, 0..9000_i64), 1..200),
        max_points in 1..60_usize,
    ) {
        let mut t_ns = 0;
        let rows: Vec<Row> = steps
            .iter()
            .map(|&(step, free, anon)| {
                t_ns += step * 1_000_000;
                row(t_ns, 123_456, free, anon, 0)
            })
            .collect();
        let samples = Samples::from_rows(&rows);
        let line = timeline(&samples, MACHINE, 10, 0..u64::MAX, max_points, &lines());
        prop_assert!(line.t_ns.len() <= 3 * max_points);
        prop_assert!(line.t_ns.is_sorted());
        let mut row = 0;
        for (point, &count) in line.samples.iter().enumerate() {
            let inside = row..row + count as usize;
            row = inside.end;
            let sum: Option<i64> = line.layers.iter().map(|layer| layer[point]).sum();
            prop_assert_eq!(sum, (count > 0).then_some(123_456));
            let free: Vec<f64> = inside.map(|row| steps[row].1 as f64).collect();
            let mean = free.iter().sum::<f64>() / free.len() as f64;
            match line.lines[0].mean[point] {
                Some(found) => prop_assert!((found - mean).abs() < 1e-6),
                None => prop_assert!(free.is_empty()),
            }
            let most = free.iter().copied().reduce(f64::max);
            prop_assert_eq!(line.lines[0].max[point], most);
        }
        prop_assert_eq!(row, rows.len());
    }
}

//! Tests of the `sample` room.

use std::time::{Duration, Instant};

use plimsoll::sample::columns::col;
use plimsoll::sample::{Reader, Row, Sampler, SamplerConfig, Target, categories, monotonic_ns};

#[test]
fn quick() {
    let mut reader = Reader::open().unwrap();
    reader.set_target(Some(&Target {
        workers: vec![std::process::id()],
        cgroup: Some(plimsoll::sample::CgroupFiles::v1(
            "/sys/fs/cgroup/memory".as_ref(),
        )),
        zram: Some("zram0".into()),
    }));
    let mut row = Row::empty(0);
    let t = Instant::now();
    for _ in 0..1000 {
        reader.read(&mut row);
    }
    eprintln!("{:?} each", t.elapsed() / 1000);
    for (i, c) in plimsoll::sample::COLUMNS.iter().enumerate() {
        eprintln!("{} {:?}", c.name, row.get(i));
    }
    let c = categories(&row).unwrap();
    for (k, v) in c.iter() {
        eprintln!("{} {}", k.name, v >> 10);
    }
    let (s, rx) = Sampler::start(SamplerConfig {
        hz: 100,
        origin_ns: monotonic_ns(),
    })
    .unwrap();
    eprintln!("{:?}", s.locked());
    std::thread::sleep(Duration::from_secs(2));
    let _ = s.latest().get(col::MEM_FREE);
    eprintln!("{:?}", s.stop());
    eprintln!("{:?}", rx.iter().map(|b| b.rows().len()).collect::<Vec<_>>());
}

//! A followed recording yields every entry once, for any actions of its writer between two polls.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use plimsoll_model::columns::Row;
use plimsoll_model::recording::model::{Event, EventKind, Trial, TrialStatus, file};
use plimsoll_model::recording::{
    Follow, FollowState, News, Now, Recording, RecordingError, StopCause, Writer,
};
use plimsoll_model::scenario::FillClass;
use proptest::prelude::*;

use plimsoll_testkit::recordings::{event, manifest, plan, results, rows, trial};

/// The entries that a follower has seen.
#[derive(Default)]
struct Seen {
    rows: Vec<Row>,
    events: Vec<Event>,
    trials: Vec<Trial>,
    state: FollowState,
}

impl Seen {
    fn take(&mut self, news: News) {
        self.rows
            .extend((0..news.samples.len()).map(|index| news.samples.row(index)));
        self.events.extend(news.events);
        for trial in news.trials {
            self.trials.retain(|earlier| earlier.id != trial.id);
            self.trials.push(trial);
        }
        self.state = news.state;
    }

    #[track_caller]
    fn is_all_of(&self, folder: &Path) {
        let recording = Recording::open(folder).unwrap();
        let rows: Vec<Row> = (0..recording.samples.len())
            .map(|index| recording.samples.row(index))
            .collect();
        assert_eq!(self.rows.len(), rows.len());
        assert!(self.rows == rows);
        assert_eq!(self.events, recording.events);
        assert_eq!(self.trials, recording.trials);
    }
}

fn now(monotonic_ns: u64) -> Now {
    Now {
        utc: "2026-01-02T04:00:00Z".into(),
        monotonic_ns,
    }
}

#[test]
fn a_follower_of_a_living_writer_sees_every_record_once() {
    let parent = tempfile::tempdir().unwrap();
    let plan = plan(&[FillClass::Random], 3);
    let mut writer = Writer::create(parent.path(), manifest("live", plan.clone())).unwrap();
    let folder = writer.folder().to_owned();
    let mut follow = Follow::open(&folder).unwrap();
    let writing = std::thread::spawn(move || {
        let mut pause = 1_u64;
        for (index, batch) in rows(600).chunks(7).enumerate() {
            writer.samples(batch).unwrap();
            let text = format!("event {index}");
            writer
                .event(&event(index as u64, EventKind::Mark, &text))
                .unwrap();
            writer.trial(&trial(&plan, index % 3, TrialStatus::Ok)).unwrap();
            if index == 20 {
                let mut manifest = writer.manifest().clone();
                manifest.swap_slots.push("/dev/zram7".into());
                writer.update_manifest(&manifest).unwrap();
            }
            pause = pause.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            std::thread::sleep(Duration::from_micros((pause >> 53) * 2));
        }
        let trials = (0..3).map(|index| trial(&plan, index, TrialStatus::Ok)).collect();
        writer.finish(&results("live", trials)).unwrap();
    });
    let mut seen = Seen::default();
    let mut polls = 0;
    let mut swap_slots = 0;
    while seen.state != FollowState::Finished {
        let news = follow.poll().unwrap();
        assert!(matches!(news.state, FollowState::Writing | FollowState::Finished));
        swap_slots += usize::from(news.manifest_changed && follow.manifest().swap_slots.len() == 2);
        seen.take(news);
        polls += 1;
        std::thread::sleep(Duration::from_micros(300));
    }
    writing.join().unwrap();
    assert!(polls > 3, "{polls}");
    // Once for the device, and once more when the checksum came.
    assert!((1..=2).contains(&swap_slots), "{swap_slots}");
    seen.is_all_of(&folder);
    assert_eq!(follow.manifest(), &Recording::open(&folder).unwrap().manifest);
}

#[test]
fn a_finished_recording_comes_whole_with_the_first_poll() {
    let parent = tempfile::tempdir().unwrap();
    let mut writer = Writer::create(parent.path(), manifest("done", plan(&[FillClass::Random], 1))).unwrap();
    writer.samples(&rows(30)).unwrap();
    writer.event(&event(3, EventKind::Mark, "here")).unwrap();
    let folder = writer.finish(&results("done", Vec::new())).unwrap();
    let mut follow = Follow::open(&folder).unwrap();
    let mut seen = Seen::default();
    seen.take(follow.poll().unwrap());
    assert_eq!(seen.state, FollowState::Finished);
    seen.is_all_of(&folder);
    let news = follow.poll().unwrap();
    assert!(news.samples.is_empty() && news.events.is_empty() && !news.manifest_changed);
    assert_eq!(news.state, FollowState::Finished);
}

#[test]
fn a_dead_writer_differs_from_a_silent_one() {
    let parent = tempfile::tempdir().unwrap();
    let mut writer = Writer::create(parent.path(), manifest("gone", plan(&[FillClass::Random], 1))).unwrap();
    let mut follow = Follow::open(writer.folder()).unwrap();
    assert_eq!(follow.poll().unwrap().state, FollowState::Writing);
    assert_eq!(follow.poll().unwrap().state, FollowState::Writing);
    let stopped = event(5, EventKind::Stopped, "the signal SIGINT");
    writer.event(&stopped).unwrap();
    assert_eq!(follow.poll().unwrap().state, FollowState::Writing);
    drop(writer);
    let cause = StopCause::Recorded("the signal SIGINT".to_owned());
    assert_eq!(follow.poll().unwrap().state, FollowState::Stopped(cause));
}

#[test]
fn a_run_is_followed_through_kill_resume_finish_and_resume() {
    let parent = tempfile::tempdir().unwrap();
    let plan = plan(&[FillClass::Random], 2);
    let rows = rows(40);
    let mut writer = Writer::create(parent.path(), manifest("parts", plan.clone())).unwrap();
    let folder = writer.folder().to_owned();
    let mut follow = Follow::open(&folder).unwrap();
    // Another one sleeps through the parts in between.
    let mut sleeper = Follow::open(&folder).unwrap();
    let (mut seen, mut slept) = (Seen::default(), Seen::default());
    writer.samples(&rows[..10]).unwrap();
    seen.take(follow.poll().unwrap());
    slept.take(sleeper.poll().unwrap());
    assert_eq!(seen.rows.len(), 10);
    drop(writer);
    let mut torn = fs::OpenOptions::new()
        .append(true)
        .open(folder.join(file::SAMPLES_LIVE))
        .unwrap();
    torn.write_all(&[0xff; 4]).unwrap();
    torn.write_all(&[0x10, 2, 0, 0, 1, 2, 3]).unwrap();
    seen.take(follow.poll().unwrap());
    assert_eq!(seen.state, FollowState::Stopped(StopCause::Unfinished));

    let mut writer = Writer::resume(&folder, &plan, &now(9_000_000_000))
        .unwrap()
        .writer;
    writer.samples(&rows[10..20]).unwrap();
    seen.take(follow.poll().unwrap());
    assert_eq!(seen.state, FollowState::Writing);
    assert_eq!(follow.manifest().resumed.len(), 1);
    writer.samples(&rows[20..25]).unwrap();
    writer.finish(&results("parts", Vec::new())).unwrap();
    seen.take(follow.poll().unwrap());
    assert_eq!(seen.state, FollowState::Finished);
    seen.is_all_of(&folder);
    let mut late = Follow::open(&folder).unwrap();
    let mut arrived = Seen::default();
    arrived.take(late.poll().unwrap());

    // The Parquet file becomes a stream again, of other batches.
    let mut writer = Writer::resume(&folder, &plan, &now(19_000_000_000))
        .unwrap()
        .writer;
    seen.take(follow.poll().unwrap());
    assert_eq!((seen.rows.len(), &seen.state), (25, &FollowState::Writing));
    writer.samples(&rows[25..]).unwrap();
    seen.take(follow.poll().unwrap());
    writer.finish(&results("parts", Vec::new())).unwrap();
    for (follow, seen) in [
        (&mut follow, &mut seen),
        (&mut sleeper, &mut slept),
        (&mut late, &mut arrived),
    ] {
        seen.take(follow.poll().unwrap());
        assert_eq!(seen.state, FollowState::Finished);
        seen.is_all_of(&folder);
        assert_eq!(seen.rows.len(), 40);
    }
}

#[test]
fn damage_in_one_file_loses_nothing_of_another() {
    let parent = tempfile::tempdir().unwrap();
    let mut writer = Writer::create(parent.path(), manifest("hurt", plan(&[FillClass::Random], 1))).unwrap();
    let folder = writer.folder().to_owned();
    let mut follow = Follow::open(&folder).unwrap();
    writer.samples(&rows(4)).unwrap();
    writer.event(&event(1, EventKind::Mark, "first")).unwrap();
    follow.poll().unwrap();
    writer.samples(&rows(9)[4..]).unwrap();
    let events = folder.join(file::EVENTS);
    let good = fs::read(&events).unwrap();
    fs::write(&events, [good.as_slice(), b"{\"t_ns\": oops}\n"].concat()).unwrap();
    let error = follow.poll().unwrap_err();
    assert!(
        matches!(error, RecordingError::CorruptJson { line: 2, .. }),
        "{error}"
    );
    assert!(follow.poll().is_err());
    fs::write(&events, &good).unwrap();
    assert_eq!(follow.poll().unwrap().samples.len(), 5);
}

/// The bytes of a recording's growing files, and the folder of the same recording once finished.
struct Grown {
    finished: PathBuf,
    files: [(&'static str, Vec<u8>); 3],
    manifest: Vec<u8>,
}

fn grown(parent: &Path) -> Grown {
    let plan = plan(&[FillClass::Random], 2);
    let mut writer = Writer::create(parent, manifest("grown", plan.clone())).unwrap();
    for batch in rows(12).chunks(3) {
        writer.samples(batch).unwrap();
    }
    for index in 0..6 {
        writer
            .event(&event(index, EventKind::Mark, "\u{e4}\u{1f600} \n words"))
            .unwrap();
        writer
            .trial(&trial(&plan, index as usize % 2, TrialStatus::Ok))
            .unwrap();
    }
    let folder = writer.folder().to_owned();
    let read = |name: &'static str| (name, fs::read(folder.join(name)).unwrap());
    let files = [read(file::SAMPLES_LIVE), read(file::EVENTS), read(file::TRIALS)];
    let manifest = fs::read(folder.join(file::MANIFEST)).unwrap();
    let trials = vec![trial(&plan, 0, TrialStatus::Ok), trial(&plan, 1, TrialStatus::Ok)];
    let finished = writer.finish(&results("grown", trials)).unwrap();
    Grown {
        finished,
        files,
        manifest,
    }
}

#[test]
fn half_a_batch_that_its_writer_took_back_is_forgotten() {
    let parent = tempfile::tempdir().unwrap();
    let grown = grown(parent.path());
    let (name, bytes) = &grown.files[0];
    let folder = parent.path().join("followed");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join(file::MANIFEST), &grown.manifest).unwrap();
    let path = folder.join(name);
    let whole = bytes.len() - 1000;
    fs::write(&path, &bytes[..whole]).unwrap();
    let mut follow = Follow::open(&folder).unwrap();
    let mut seen = Seen::default();
    seen.take(follow.poll().unwrap());
    assert_eq!(seen.rows.len(), 9);
    // What a writer does that finds no room: it shrinks the file to its whole batches, and later writes another one.
    let batch = (bytes.len() - whole_head(bytes)) / 4;
    let stream = fs::OpenOptions::new().append(true).open(&path).unwrap();
    stream.set_len((bytes.len() - batch) as u64).unwrap();
    seen.take(follow.poll().unwrap());
    (&stream).write_all(&bytes[bytes.len() - batch..]).unwrap();
    seen.take(follow.poll().unwrap());
    assert_eq!(seen.rows, rows(12));
    // What was whole and is gone is damage.
    stream.set_len(whole as u64).unwrap();
    let error = follow.poll().unwrap_err();
    assert!(
        matches!(&error, RecordingError::CorruptSamples { path: cut, .. } if *cut == path),
        "{error}"
    );
}

/// Bytes of a stream's schema.
fn whole_head(stream: &[u8]) -> usize {
    8 + u32::from_le_bytes([stream[4], stream[5], stream[6], stream[7]]) as usize
}

/// How much of each file is there at a poll, in thousandths.
fn any_growth() -> impl Strategy<Value = Vec<[u16; 3]>> {
    proptest::collection::vec(proptest::array::uniform3(0..=1000_u16), 0..12)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn files_that_grow_by_any_bytes_bring_every_record_once(
        growth in any_growth(),
        finish in any::<bool>(),
        late in 0..4_usize,
    ) {
        let parent = tempfile::tempdir().unwrap();
        let grown = grown(parent.path());
        let folder = parent.path().join("followed");
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join(file::MANIFEST), &grown.manifest).unwrap();
        let mut follow = Follow::open(&folder).unwrap();
        let mut seen = Seen::default();
        let grow = |shares: [u16; 3]| {
            for ((name, bytes), share) in grown.files.iter().zip(shares) {
                let path = folder.join(name);
                let mut file = fs::OpenOptions::new().create(true).append(true).open(&path).unwrap();
                let from = file.metadata().unwrap().len() as usize;
                let to = (bytes.len() * usize::from(share) / 1000).max(from);
                file.write_all(&bytes[from..to]).unwrap();
            }
        };
        for (poll, shares) in growth.into_iter().enumerate() {
            grow(shares);
            if poll >= late {
                seen.take(follow.poll().unwrap());
                let stopped = matches!(seen.state, FollowState::Stopped(_));
                prop_assert!(stopped, "{:?}", seen.state);
                seen.is_all_of(&folder);
            }
        }
        if finish {
            grow([1000; 3]);
            for name in [file::RESULTS, file::SAMPLES, file::MANIFEST] {
                fs::copy(grown.finished.join(name), folder.join(name)).unwrap();
            }
            if late % 2 == 0 {
                fs::remove_file(folder.join(file::SAMPLES_LIVE)).unwrap();
            }
            seen.take(follow.poll().unwrap());
            prop_assert_eq!(&seen.state, &FollowState::Finished);
            seen.is_all_of(&folder);
            prop_assert_eq!(seen.rows.len(), 12);
            prop_assert_eq!(seen.trials.len(), 2);
        }
    }
}

//! Facts that the results do not have: the engine's record, classes, addresses, and errors of the system.

use rustix::io::Errno;

use super::*;

#[test]
fn the_engine_knows_starts_without_documents() {
    let fleet = Fleet::new(&["a", "b", "c"]);
    fleet.finish("a", "h1");
    let record = |task: &str, restarts: u32, state: &str, hosts: &str| {
        format!(
            r#"{{"task": "{task}", "source": "scontrol", "restarts": {restarts}, "state": "{state}", "hosts": [{hosts}]}}"#
        )
    };
    let records = [
        record("a", 2, "COMPLETED", r#""h1""#),
        record("b", 0, "PENDING", ""),
        record("other", 0, "FAILED\\u001b[2J", r#""h3""#),
    ];
    let file = fleet.folder.path().join("accounting.json");
    let document = format!(
        r#"{{"version": 1, "job": "12", "tasks": [{}]}}"#,
        records.join(",")
    );
    fs::write(&file, document).unwrap();
    let collected = fleet.collect();
    let state = |index: usize| {
        collected.tasks[index]
            .engine
            .as_ref()
            .map(|engine| engine.state.as_str())
    };
    assert_eq!(
        [state(0), state(1), state(2)],
        [Some("COMPLETED"), Some("PENDING"), None]
    );
    let rows = read(&fleet.data().join("tasks.parquet"), columns::TASKS);
    let of = |name: &str| column(&rows, columns::TASKS, name);
    // The result states no restart.
    assert_eq!(
        of("engine_restarts"),
        [Value::Integer(2), Value::Integer(0), Value::Absent]
    );
    assert_eq!(of("engine_hosts")[..2], texts(&[r#"["h1"]"#, "[]"]));
    let foreign = &crate::accounting::read(fleet.folder.path()).unwrap()[&"other".parse().unwrap()];
    assert!(!foreign.state.contains('\u{1b}'), "{foreign:?}");

    // The results do not depend on it.
    fs::write(&file, "{").unwrap();
    let collected = fleet.collect();
    assert_eq!(collected.tasks[0].state, State::Done);
    assert!(collected.records_error.unwrap().contains("accounting.json"));
}

#[test]
fn a_host_has_the_class_of_the_hosts_file() {
    let mut fleet = Fleet::new(&["a", "b"]);
    let hosts = crate::hosts::parse("root@h1:2222 class=old\nroot@h2\n").unwrap();
    for (task, host) in fleet.plan.tasks.iter_mut().zip(&hosts) {
        task.host = Some(host.address());
    }
    fleet.plan.engine = plan::Engine::Ssh { hosts };
    for (id, host) in [("a", "h1"), ("b", "h2")] {
        let folder = fleet.finish(id, host);
        // A host cannot choose its class.
        let text = fs::read_to_string(folder.join("host.json")).unwrap();
        fs::write(
            folder.join("host.json"),
            text.replace(r#""class": null"#, r#""class": "mine""#),
        )
        .unwrap();
        seal(&folder, id);
    }
    assert_eq!(fleet.collect().incomplete(), 0);
    let rows = read(&fleet.data().join("tasks.parquet"), columns::TASKS);
    let classes = column(&rows, columns::TASKS, "class");
    assert_eq!(classes[0], Value::Text("old".to_owned()));
    assert!(
        matches!(&classes[1], Value::Text(class) if class.contains("A machine")),
        "{classes:?}"
    );
}

#[test]
fn two_machines_of_one_name_are_two_hosts() {
    let mut fleet = Fleet::new(&["a", "b", "b.r2"]);
    for (task, host) in fleet
        .plan
        .tasks
        .iter_mut()
        .zip(["pi@10.0.0.1", "pi@10.0.0.2", "pi@10.0.0.2"])
    {
        task.host = Some(host.to_owned());
    }
    for id in ["a", "b", "b.r2"] {
        fleet.finish(id, "raspberrypi");
    }
    let hosts = |collected: Collected| -> Vec<String> {
        collected.tasks.into_iter().filter_map(|task| task.host).collect()
    };
    let other = "raspberrypi (pi@10.0.0.2)";
    assert_eq!(hosts(fleet.collect()), ["raspberrypi", other, other]);
    assert_eq!(fleet.collect().kept, 3);
    let rows = read(&fleet.data().join("tasks.parquet"), columns::TASKS);
    assert_eq!(
        column(&rows, columns::TASKS, "host"),
        texts(&["raspberrypi", other, other])
    );
}

#[test]
fn a_file_server_that_fails_takes_no_copy_away() {
    let fleet = Fleet::new(&["a", "b"]);
    fleet.finish("a", "h1");
    fleet.finish("b", "h2");
    assert_eq!(fleet.collect().copied, 2);
    for (error, is_wrong) in [
        (Errno::STALE, false),
        (Errno::ACCESS, false),
        (Errno::MFILE, false),
        (Errno::LOOP, true),
        (Errno::NOTDIR, true),
    ] {
        let state = source::unusable(&error.into(), &"cannot read it");
        assert_eq!(
            state.name(),
            if is_wrong { "corrupt" } else { "unreadable" },
            "{error}"
        );
    }
    // Unlike a result that is gone.
    fs::rename(fleet.tasks(), fleet.folder.path().join("elsewhere")).unwrap();
    let error = collect(fleet.folder.path(), &fleet.plan, &fleet.data()).unwrap_err();
    assert!(error.to_string().contains("restore it"), "{error}");
    assert!(fleet.task_data("h1", "a").join("samples.parquet").exists());
    fs::rename(fleet.folder.path().join("elsewhere"), fleet.tasks()).unwrap();
    fs::remove_dir_all(fleet.tasks().join("b")).unwrap();
    assert_eq!(fleet.state(1).name(), "missing");
    assert!(!fleet.task_data("h2", "b").exists());
}

#[test]
fn an_unreadable_result_keeps_its_copy() {
    let fleet = Fleet::new(&["a"]);
    fleet.finish("a", "h1");
    let mut collected = fleet.collect();
    // Of a folder of another user; root could read it.
    let set = DataSet::open(&Folder::make(&fleet.data()).unwrap(), &fleet.plan.run).unwrap();
    collected.tasks[0].state = source::unusable(&Errno::ACCESS.into(), &"cannot open it");
    retain(&set, &collected).unwrap();
    assert!(fleet.task_data("h1", "a").join("samples.parquet").exists());
}

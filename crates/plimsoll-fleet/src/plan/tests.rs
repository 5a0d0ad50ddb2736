use proptest::prelude::*;

use super::*;
use crate::hosts::{self, Host};

fn plan() -> Plan {
    let task = |id: &str, repeat| Task {
        id: id.parse().unwrap(),
        host: None,
        repeat,
    };
    Plan {
        version: VERSION,
        run: "nightly-2026".parse().unwrap(),
        created: "2026-11-30T17:40:00Z".to_owned(),
        scenario: PlannedScenario {
            name: "thrash".to_owned(),
            sha256: "0".repeat(64),
        },
        changes: vec!["size=1G".to_owned(), "note=it's $(here)".to_owned()],
        quick: true,
        binary: Binary {
            sha256: "a".repeat(64),
            bytes: 1,
            version: "0.1.0".to_owned(),
        },
        engine: Engine::Slurm {
            partition: "all".to_owned(),
            time_limit_minutes: 30,
        },
        at_most: 3,
        stop_after: Some(2),
        retries: 1,
        privileges: vec![Privilege {
            action: "creates a zram device".to_owned(),
            reason: "the scenario compares swap devices".to_owned(),
        }],
        tasks: vec![task("t-1", 1), task("t-2", 2)],
    }
}

#[test]
fn a_plan_is_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let engines = [
        plan().engine,
        Engine::Ssh {
            hosts: hosts::parse("root@a:2022 class=x\nb").unwrap(),
        },
        Engine::Kubernetes {
            namespace: "default".to_owned(),
            image: "registry:5000/plimsoll@sha256:00".to_owned(),
            nodes: vec!["node-1".to_owned()],
            memory_limit: "8Gi".to_owned(),
            tolerations: vec!["example.com/lab".to_owned()],
        },
    ];
    for engine in engines {
        let plan = Plan { engine, ..plan() };
        plan.write(folder.path()).unwrap();
        assert_eq!(Plan::read(folder.path()).unwrap(), plan);
    }
}

#[test]
fn a_plan_with_dangerous_text_is_refused() {
    type Damage = fn(&mut Plan);
    let damages: &[Damage] = &[
        |plan| plan.version = 2,
        |plan| plan.tasks.clear(),
        |plan| plan.tasks[1].id = plan.tasks[0].id.clone(),
        |plan| plan.tasks[0].host = Some("-oProxyCommand=x".to_owned()),
        |plan| plan.tasks[0].host = Some("a b".to_owned()),
        |plan| plan.at_most = 0,
        |plan| plan.changes.push("size=1\nrm -r /".to_owned()),
        |plan| plan.changes.push("--output=/".to_owned()),
        |plan| plan.changes.push("size".to_owned()),
        |plan| plan.created = "\u{1b}[2J".to_owned(),
        |plan| plan.binary.sha256 = "$(x)".to_owned(),
        |plan| plan.scenario.sha256 = "A".repeat(64),
        |plan| plan.privileges[0].action = String::new(),
        |plan| {
            plan.engine = Engine::Slurm {
                partition: "a;b".to_owned(),
                time_limit_minutes: 1,
            };
        },
        |plan| {
            plan.engine = Engine::Slurm {
                partition: "a".to_owned(),
                time_limit_minutes: 0,
            };
        },
        |plan| plan.engine = Engine::Ssh { hosts: Vec::new() },
        |plan| {
            plan.engine = Engine::Ssh {
                hosts: vec![Host {
                    destination: "-oProxyCommand=x".to_owned(),
                    port: None,
                    class: None,
                }],
            };
        },
        |plan| {
            plan.engine = Engine::Kubernetes {
                namespace: "a".to_owned(),
                image: "b\nprivileged: true".to_owned(),
                nodes: Vec::new(),
                memory_limit: "1Gi".to_owned(),
                tolerations: Vec::new(),
            };
        },
        |plan| {
            plan.engine = Engine::Kubernetes {
                namespace: "a".to_owned(),
                image: "b".to_owned(),
                nodes: Vec::new(),
                memory_limit: "1Gi".to_owned(),
                tolerations: vec!["a\", operator: Exists}".to_owned()],
            };
        },
    ];
    let folder = tempfile::tempdir().unwrap();
    for (index, damage) in damages.iter().enumerate() {
        let mut plan = plan();
        damage(&mut plan);
        assert!(plan.check().is_err(), "{index}");
        assert!(plan.write(folder.path()).is_err(), "{index}");
        // Written by hand.
        std::fs::write(folder.path().join(FILE), serde_json::to_vec(&plan).unwrap()).unwrap();
        assert!(Plan::read(folder.path()).is_err(), "{index}");
    }
}

#[test]
fn a_newer_plan_names_its_version() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join(FILE), r#"{"version": 9, "new": true}"#).unwrap();
    let error = Plan::read(folder.path()).unwrap_err();
    assert!(matches!(error, FleetError::Version { found: 9, .. }), "{error:?}");
    let mut document = serde_json::to_value(plan()).unwrap();
    document["unknown"] = true.into();
    std::fs::write(folder.path().join(FILE), document.to_string()).unwrap();
    let error = Plan::read(folder.path()).unwrap_err();
    assert!(matches!(error, FleetError::Format { .. }), "{error:?}");
}

#[test]
fn names_stay_in_their_folder() {
    for name in ["a", "0", "a.b-c_d", &"a".repeat(63)] {
        assert_eq!(name.parse::<TaskId>().unwrap().as_str(), name);
    }
    let wrong = [
        "",
        ".",
        "..",
        ".a",
        "-a",
        "_a",
        "a/b",
        "a..b",
        "A",
        "a b",
        "a\n",
        "a.attempts",
        "ä",
        "a\0",
    ];
    for name in wrong.into_iter().chain([&*"a".repeat(64)]) {
        assert!(name.parse::<TaskId>().is_err(), "{name:?}");
        let json = serde_json::to_string(name).unwrap();
        assert!(serde_json::from_str::<RunName>(&json).is_err(), "{name:?}");
    }
}

#[test]
fn a_file_of_hosts_names_its_mistakes() {
    let hosts = hosts::parse("# fleet\n\nroot@a:2022  class=big # first\nb\n").unwrap();
    assert_eq!(hosts[0].destination, "root@a");
    assert_eq!(hosts[0].name(), "a");
    assert_eq!(
        (hosts[0].port, hosts[0].class.as_deref()),
        (Some(2022), Some("big"))
    );
    assert_eq!((hosts[1].port, hosts[1].class.as_deref()), (None, None));
    let wrong = [
        "",
        "# none",
        "-oProxyCommand=x",
        "a b",
        "a class=",
        "a class=x y",
        "a class=x class=y",
        "a:0",
        "a:65536",
        "a:+1",
        "a:022",
        "a:",
        "@a",
        "a@",
        "a;b",
        "a\nA",
        "root@a\nuser@a:22",
        "a\u{202e}b",
        "x@-a",
        "a class=-x",
    ];
    for text in wrong {
        assert!(hosts::parse(text).is_err(), "{text:?}");
    }
    assert!(hosts::parse("a\n\nb c").unwrap_err().contains("line 3"));
}

proptest! {
    #[test]
    fn any_text_is_a_name_or_an_error(text in any::<String>()) {
        if let Ok(id) = text.parse::<TaskId>() {
            prop_assert_eq!(id.to_string(), text.clone());
            let json = serde_json::to_string(&id).unwrap();
            prop_assert_eq!(serde_json::from_str::<TaskId>(&json).unwrap(), id);
            prop_assert_eq!(std::path::Path::new(&text).components().count(), 1);
        }
    }

    #[test]
    fn a_name_of_the_grammar_is_accepted(text in "[a-z0-9][a-z0-9_-]{0,62}") {
        prop_assert_eq!(text.parse::<RunName>().unwrap().to_string(), text);
    }

    #[test]
    fn a_host_is_words_of_a_command_and_parses_back(
        line in "([a-zA-Z0-9._-]{1,9}@)?[a-zA-Z0-9._-]{1,20}(:[0-9]{1,6})?( class=[a-z-]{1,9})?"
    ) {
        if let Ok(host) = line.parse::<Host>() {
            prop_assert!(host.is_valid());
            prop_assert_eq!(host.to_string().parse::<Host>().unwrap(), host.clone());
            prop_assert!(!host.destination.starts_with('-') && !host.name().starts_with('-'));
            let safe = |word: &str| word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-@".contains(&byte));
            prop_assert!(safe(&host.destination));
            prop_assert!(host.class.as_deref().is_none_or(safe));
        }
    }

    #[test]
    fn any_file_of_hosts_is_read_or_refused(text in any::<String>(), plain in "[a-c@:#=0-2 \n-]{0,60}") {
        for text in [text, plain] {
            if let Ok(hosts) = hosts::parse(&text) {
                let lines: Vec<String> = hosts.iter().map(Host::to_string).collect();
                prop_assert_eq!(hosts::parse(&lines.join("\n")).unwrap(), hosts);
            }
        }
    }

    #[test]
    fn any_plan_is_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200), at in 0..2000_usize, with in any::<u8>()) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(FILE);
        std::fs::write(&file, &bytes).unwrap();
        prop_assert!(Plan::read(folder.path()).is_err());
        let mut document = serde_json::to_vec(&plan()).unwrap();
        let at = at % document.len();
        document[at] = with;
        std::fs::write(&file, &document).unwrap();
        if let Ok(read) = Plan::read(folder.path()) {
            prop_assert!(read.check().is_ok());
            read.write(folder.path()).unwrap();
            prop_assert_eq!(Plan::read(folder.path()).unwrap(), read);
        }
    }
}

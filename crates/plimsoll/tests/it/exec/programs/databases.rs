//! Databases: sqlite3 with its pages in memory, redis-server and its dump, PostgreSQL under pgbench.

use std::path::PathBuf;

use plimsoll_testkit::capability;

use super::{Case, as_without_a_limit, installed};

#[test]
fn sqlite_builds_and_queries_a_database() {
    if !installed(&["sqlite3"]) {
        return;
    }
    let case = Case {
        name: "sqlite3",
        arguments: &["sqlite3", "data.db", ".read numbers.sql"],
        sources: &["numbers.sql"],
        after: "sha256sum data.db; test $(stat --format %s data.db) -ge 200000000",
        ..Case::default()
    };
    let output = as_without_a_limit(&case, [104, 52]);
    assert!(output.contains("\nok\n"), "{output}");
}

/// The server, its child that writes the dump, the clients and the shell are managed.
const REDIS: &str = r#"
redis-server --port 0 --save '' --unixsocket socket --enable-debug-command yes >log 2>&1 &
ask() { redis-cli -s socket "$@"; }
until ask ping 2>/dev/null | grep -q PONG; do sleep 0.05; done
ask debug populate 200000 key 200
ask eval 'for i = 1, 50000 do redis.call("set", "x" .. i, string.rep(tostring(i), 20)) end
    for i = 1, 20000 do redis.call("hset", "hash", i, i * i); redis.call("zadd", "sorted", i * 7919 % 3001, i) end
    return redis.call("dbsize")' 0
ask bgsave
until ask info persistence | grep -q rdb_bgsave_in_progress:0; do sleep 0.05; done
ask info persistence | grep rdb_last_bgsave_status
ask debug digest
ask shutdown nosave force
wait
"#;

/// The dump has times and sizes, so that a server loads it for the comparison.
const REDIS_OF_DUMP: &str = r#"
redis-server --port 0 --save '' --unixsocket socket --enable-debug-command yes >log 2>&1 &
until redis-cli -s socket ping 2>/dev/null | grep -q PONG; do sleep 0.05; done
redis-cli -s socket dbsize
redis-cli -s socket debug digest
redis-cli -s socket shutdown nosave force
wait
"#;

#[test]
fn redis_saves_the_same_dump_in_the_background() {
    if !installed(&["redis-server", "redis-cli"]) {
        return;
    }
    let case = Case {
        name: "redis-server",
        arguments: &["sh", "-c", REDIS],
        after: REDIS_OF_DUMP,
        ..Case::default()
    };
    let output = as_without_a_limit(&case, [48, 24]);
    let digests: Vec<&str> = output.lines().filter(|line| line.len() == 40).collect();
    assert!(
        digests.len() == 2 && digests[0] == digests[1] && output.contains("rdb_last_bgsave_status:ok"),
        "{output}"
    );
}

/// As [`REDIS`], under loads of `redis-benchmark`, whose keys are random. Each load that writes has one value, and on average 30
/// requests for each of its 2,000 keys, so that the data do not depend on chance: a key is missed once in billions of loads. Without
/// `-r`, a load has one key: a counter, and a list of equal elements. The child sleeps after each fourth key, on average: it writes the
/// dump for 2 s at least, and meanwhile, clients read 60,000 keys at random.
const REDIS_UNDER_LOAD: &str = r#"
redis-server --port 0 --save '' --unixsocket socket --enable-debug-command yes >log 2>&1 &
ask() { redis-cli -s socket "$@"; }
load() { redis-benchmark -s socket -q -c 20 -P 16 "$@" >>loads; }
server=$!
until ask ping 2>/dev/null | grep -q PONG; do kill -0 $server || { cat log >&2; exit 1; }; sleep 0.05; done
ask eval 'for i = 0, 199999 do
        redis.call("set", string.format("key:%012d", i), string.rep(redis.sha1hex(i), 10))
    end
    return redis.call("dbsize")' 0
load -n 60000 -r 2000 -d 1000 -t set,sadd,hset
load -n 20000 -d 100 -t incr,lpush,rpush,lpop
ask config set rdb-key-save-delay -4
ask bgsave
load -n 1600 -r 200000 -t get
ask info persistence | grep rdb_bgsave_in_progress
load -n 58400 -r 200000 -t get
until ask info persistence | grep -q rdb_bgsave_in_progress:0; do sleep 0.05; done
ask info persistence | grep rdb_last_bgsave_status
echo "loads $(grep -c 'requests per second' loads)"
ask mget key:000000001999 key:000000002000
ask debug digest
ask shutdown nosave force
wait
"#;

/// 200,000 values of 400 bytes are nearly all of the server's memory.
#[test]
fn redis_saves_the_same_dump_under_load() {
    if !installed(&["redis-server", "redis-benchmark", "redis-cli"]) {
        return;
    }
    let case = Case {
        name: "redis-benchmark",
        arguments: &["sh", "-c", REDIS_UNDER_LOAD],
        after: REDIS_OF_DUMP,
        ..Case::default()
    };
    let output = as_without_a_limit(&case, [56, 28]);
    let digests: Vec<&str> = output.lines().filter(|line| line.len() == 40).collect();
    assert!(digests.len() == 2 && digests[0] == digests[1], "{output}");
    // The keys of the loaded dump: the values, a set, a hash, a counter and a list.
    for line in [
        "rdb_bgsave_in_progress:1",
        "rdb_last_bgsave_status:ok",
        "loads 9",
        "200004",
    ] {
        assert!(
            output.lines().any(|other| other.trim_end() == line),
            "no {line} in {output}"
        );
    }
}

/// Folder of the server of a Debian package of PostgreSQL, outside of every `PATH`.
fn postgres() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?.flatten();
    let mut folders = versions.map(|version| version.path().join("bin"));
    folders.find(|folder| {
        ["initdb", "postgres", "pgbench"]
            .iter()
            .all(|name| folder.join(name).exists())
    })
}

/// The shell, the server, its processes and its clients are managed. Its buffers are shared memory, which the budget does not have.
#[test]
fn postgres_has_the_same_balances() {
    let folder = postgres();
    if !capability(
        "postgres",
        folder.is_some(),
        "there is no server in /usr/lib/postgresql",
    ) {
        return;
    }
    let folder = folder.unwrap_or_default();
    let case = Case {
        name: "postgres",
        arguments: &["sh", "-e", "balances.sh"],
        variables: &[("POSTGRES", folder.to_str().expect("text"))],
        sources: &["balances.sh"],
        exceeds_briefly: true,
        ..Case::default()
    };
    let output = as_without_a_limit(&case, [40, 24]);
    assert!(output.contains("number of failed transactions: 0 "), "{output}");
}

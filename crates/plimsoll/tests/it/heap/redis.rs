//! redis-server on the heap: under load, and with the answers that it gives without it.

use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::programs::{finished, on_heap};
use super::{HEAPS, has};

/// A server that runs until its value is dropped, and clients of it.
struct Redis {
    server: Child,
    /// Its folder, with its socket: a socket's path may have 107 bytes.
    place: TempDir,
    /// One of [`HEAPS`]; none without it: Debian's has jemalloc.
    heap: Option<&'static str>,
}

/// A command in a folder, on the heap or not.
fn command(heap: Option<&str>, place: &TempDir, program: &str) -> Command {
    match heap {
        Some(heap) => {
            let mut command = on_heap(heap, place.path());
            command.arg(program);
            command
        }
        None => {
            let mut command = plimsoll_testkit::command(program);
            command.current_dir(place.path()).env_remove("LD_PRELOAD");
            command
        }
    }
}

impl Redis {
    fn start(heap: Option<&'static str>) -> Redis {
        let place = tempfile::tempdir().expect("a temporary folder");
        let socket = place.path().join("redis");
        let mut server = command(heap, &place, "redis-server");
        server
            .args(["--port", "0", "--save", "", "--unixsocket"])
            .arg(&socket);
        server.stdout(Stdio::null()).stderr(Stdio::null());
        let server = server.spawn().expect("the program starts");
        let redis = Redis { server, place, heap };
        let started = Instant::now();
        while !redis.answers("PING", "PONG") {
            assert!(
                started.elapsed() < Duration::from_secs(60),
                "the server does not answer"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        redis
    }

    fn answers(&self, question: &str, answer: &str) -> bool {
        self.place.path().join("redis").exists()
            && self.ask(&["redis-cli", question]) == (true, answer.into())
    }

    /// Runs a client to its end. Whether it succeeded, and its output.
    fn ask(&self, words: &[&str]) -> (bool, String) {
        let mut client = command(self.heap, &self.place, words[0]);
        client.args(["-s", "redis"]).args(&words[1..]);
        let output = finished(&mut client, 120);
        let text = String::from_utf8_lossy(&output.stdout);
        (output.status.success(), text.trim().to_owned())
    }

    /// Has the server run a script. Returns its answer.
    fn run(&self, script: &str) -> String {
        let (ran, answer) = self.ask(&["redis-cli", "eval", script, "0"]);
        assert!(ran && !answer.contains("ERR"), "{script}: {answer}");
        answer
    }

    /// Has the server end, and waits for that.
    fn end(mut self) -> ExitStatus {
        let (ended, answer) = self.ask(&["redis-cli", "shutdown", "nosave", "force"]);
        assert!(ended, "{answer}");
        self.server.wait().expect("it ends")
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        // It has ended, unless the test failed.
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

fn is_there() -> bool {
    has("redis-server") && has("redis-benchmark") && has("redis-cli")
}

#[test]
fn redis_serves_under_load() {
    if is_there() {
        HEAPS.into_iter().for_each(serves_under_load);
    }
}

fn serves_under_load(heap: &'static str) {
    let redis = Redis::start(Some(heap));
    let load = "redis-benchmark -q -n 5000 -c 20 -r 2000 -d 300 -t set,get,lpush,lpop,sadd,hset,zadd,mset";
    let (served, report) = redis.ask(&load.split(' ').collect::<Vec<_>>());
    assert!(
        served && report.contains("requests per second"),
        "{heap}: {report}"
    );
    // A fork of the server writes its memory to a file.
    let (_, copied) = redis.ask(&["redis-cli", "bgsave"]);
    assert!(copied.contains("started"), "{copied}");
    let started = Instant::now();
    let mut persistence = String::new();
    while !persistence.contains("rdb_bgsave_in_progress:0") {
        assert!(started.elapsed() < Duration::from_secs(60), "{persistence}");
        std::thread::sleep(Duration::from_millis(50));
        persistence = redis.ask(&["redis-cli", "info", "persistence"]).1;
    }
    assert!(persistence.contains("rdb_last_bgsave_status:ok"), "{persistence}");
    assert!(redis.end().success());
}

/// Values of all kinds and lengths: made, changed and thrown away, many by their number, so that nothing is left to
/// chance.
const CHANGES: [&str; 6] = [
    "for n = 1, 4000 do redis.call('set', 'k' .. n, string.rep(string.char(97 + n % 26), n * 7 % 3000)) end",
    "for n = 1, 3000 do redis.call('rpush', 'list', string.rep('x', n % 700) .. n) end",
    "for n = 1, 3000 do redis.call('hset', 'hash', 'field' .. n, n * n); redis.call('sadd', 'set', 'member' .. n * 3) end",
    "for n = 1, 3000 do redis.call('zadd', 'sorted', n * 7919 % 3001, 'member' .. n) end",
    "for n = 1, 4000, 3 do redis.call('del', 'k' .. n); redis.call('lpop', 'list'); redis.call('srem', 'set', 'member' .. n * 3) end",
    "for n = 2, 4000, 3 do redis.call('append', 'k' .. n, string.rep('+', n)); redis.call('hdel', 'hash', 'field' .. n) end",
];

/// Digests of each kind, in an order that does not depend on the server's own.
const QUESTIONS: [&str; 6] = [
    "local d = '' for n = 1, 4000 do d = redis.sha1hex(d .. (redis.call('get', 'k' .. n) or '-')) end return d",
    "return redis.sha1hex(table.concat(redis.call('lrange', 'list', 0, -1), ' '))",
    "local d = '' for n = 1, 3000 do d = redis.sha1hex(d .. (redis.call('hget', 'hash', 'field' .. n) or '-')) end return d",
    "return redis.sha1hex(table.concat(redis.call('sort', 'set', 'alpha'), ' '))",
    "return redis.sha1hex(table.concat(redis.call('zrange', 'sorted', 0, -1, 'withscores'), ' '))",
    "return redis.call('llen', 'list') .. ' ' .. redis.call('scard', 'set') .. ' ' .. redis.call('hlen', 'hash')",
];

fn answers(heap: Option<&'static str>) -> Vec<String> {
    let redis = Redis::start(heap);
    let mut answers = Vec::new();
    // What was thrown away is made again.
    for _ in 0..2 {
        for change in CHANGES {
            redis.run(change);
        }
        answers.extend(QUESTIONS.map(|question| redis.run(question)));
    }
    assert!(redis.end().success());
    answers
}

#[test]
fn redis_answers_the_same() {
    if !is_there() {
        return;
    }
    let expected = answers(None);
    assert_eq!(expected[0].len(), 40, "{expected:?}");
    assert_ne!(expected[0], expected[1]);
    for heap in HEAPS {
        assert_eq!(answers(Some(heap)), expected, "{heap}");
    }
}

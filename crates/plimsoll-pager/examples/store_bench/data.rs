//! Pages to compress.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};

use plimsoll_pager::store::{PAGE, Page};

pub(crate) type Pages = Vec<Page>;

/// Pages that LZ4 compresses about `ratio`:1: each begins with random bytes and ends with one byte repeated, as those of
/// the class `ratio=R` of the workloads.
pub(crate) fn of_ratio(ratio: f64, bytes: usize) -> Pages {
    // A sequence with its literals and match takes about 33 bytes more than the random ones.
    let random = (PAGE as f64 / ratio) as usize - 33;
    let mut state = 1u64;
    (0..bytes / PAGE)
        .map(|_| {
            let mut page = [0; PAGE];
            for byte in &mut page[..random] {
                state = state
                    .wrapping_mul(6364136223846793005)
                    .wrapping_add(1442695040888963407);
                *byte = (state >> 56) as u8;
            }
            let last = page[random - 1];
            page[random..].fill(last);
            page
        })
        .collect()
}

/// A program with the data that programs have: modules, parsed documents, numbers, strings, caches.
const PROGRAM: &str = r#"
import json, re, random, decimal, datetime, collections, email, http.client, unittest, xml.dom.minidom, sqlite3, ast, inspect, sys
r = random.Random(7)
words = "memory page fault trim store working set compression kernel segment header".split()
rows = [{"id": n, "name": r.choice(words) + str(n), "tags": r.sample(words, 3), "score": r.random(),
         "when": str(datetime.datetime(2024, 1, 1) + datetime.timedelta(seconds=r.randrange(10**7)))} for n in range(60000)]
text = json.dumps(rows)
again = json.loads(text)
index = collections.defaultdict(list)
for row in rows: index[row["name"][:4]].append(row["id"])
numbers = [r.randrange(10**12) for _ in range(300000)]
floats = [r.gauss(0, 1) for _ in range(300000)]
trees = [ast.parse(inspect.getsource(m)) for m in (json, re, random, decimal, collections, email, unittest, inspect, ast)]
db = sqlite3.connect(":memory:")
db.execute("create table t (a integer, b text, c real)")
db.executemany("insert into t values (?, ?, ?)", ((row["id"], row["name"], row["score"]) for row in rows))
print("ready", flush=True)
sys.stdin.read()
"#;

/// Pages of the writable anonymous memory of a python3 at work.
pub(crate) fn of_python(bytes: usize) -> Pages {
    let mut child = Command::new("python3")
        .args(["-c", PROGRAM])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 starts");
    let mut line = String::new();
    let output = child.stdout.take().expect("it is a pipe");
    BufReader::new(output)
        .read_line(&mut line)
        .expect("python3 writes a line");
    assert_eq!(line, "ready\n");
    let pages = resident_pages(child.id(), bytes);
    drop(child.stdin.take());
    child.wait().expect("it is a child");
    pages
}

/// Resident pages of a process, of private writable memory without a file, evenly over all of it.
fn resident_pages(pid: u32, bytes: usize) -> Pages {
    let open = |name: &str| File::open(format!("/proc/{pid}/{name}")).expect("it is a child of this user");
    let mut maps = String::new();
    open("maps").read_to_string(&mut maps).expect("it is text");
    let (pagemap, memory) = (open("pagemap"), open("mem"));
    let mut present = Vec::new();
    for line in maps.lines() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let is_anonymous = fields.len() == 5 || fields[5] == "[heap]";
        if !fields[1].starts_with("rw") || !is_anonymous {
            continue;
        }
        let (start, end) = fields[0].split_once('-').expect("a range");
        let number = |text| u64::from_str_radix(text, 16).expect("a number");
        for page in number(start) / PAGE as u64..number(end) / PAGE as u64 {
            let mut entry = [0; 8];
            let is_read = pagemap.read_exact_at(&mut entry, page * 8).is_ok();
            if is_read && u64::from_le_bytes(entry) >> 63 == 1 {
                present.push(page);
            }
        }
    }
    // Runs of 256 pages, so that neighbours stay neighbours.
    let runs: Vec<&[u64]> = present.chunks(256).collect();
    let wanted = (bytes / PAGE / 256).max(1);
    let step = (runs.len() as f64 / wanted as f64).max(1.0);
    let chosen = (0..wanted.min(runs.len())).map(|n| runs[(n as f64 * step) as usize]);
    let mut pages = Vec::new();
    for number in chosen.flatten() {
        let mut page = [0; PAGE];
        if memory.read_exact_at(&mut page, number * PAGE as u64).is_ok() {
            pages.push(page);
        }
    }
    pages
}

pub(crate) fn of_file(path: &str, bytes: usize) -> Pages {
    let mut content = Vec::new();
    let file = File::open(path).expect("the file can be read");
    file.take(bytes as u64)
        .read_to_end(&mut content)
        .expect("the file can be read");
    content.as_chunks::<PAGE>().0.to_vec()
}

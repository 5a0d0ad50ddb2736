"""What programs do all day: lists, dictionaries, text, threads, processes, JSON. Prints a digest of all that was made."""

import collections
import hashlib
import json
import queue
import random
import re
import subprocess
import sys
import threading

digest = hashlib.sha256()


def keep(value):
    digest.update(json.dumps(value, sort_keys=True).encode())


def containers(seed):
    random_ = random.Random(seed)
    table = {}
    for _ in range(20000):
        key = "".join(random_.choices("abcdefgh", k=random_.randint(1, 12)))
        table.setdefault(key, []).append(random_.random())
    for key in random_.sample(sorted(table), len(table) // 2):
        del table[key]
    words = collections.Counter(re.findall("[a-d]+", " ".join(table)))
    rows = sorted((len(values), key) for key, values in table.items())
    return [len(table), rows[:50], words.most_common(50), [bytes(n).hex() for n in range(0, 3000, 371)]]


def threads():
    jobs, results = queue.Queue(), queue.Queue()

    def work():
        while (job := jobs.get()) is not None:
            text = json.dumps([{"n": n, "t": "x" * (n % 977)} for n in range(job)])
            results.put((job, len(text), hashlib.sha256(text.encode()).hexdigest(), len(json.loads(text))))

    running = [threading.Thread(target=work) for _ in range(8)]
    for thread in running:
        thread.start()
    for job in range(120):
        jobs.put(job * 7)
    for _ in running:
        jobs.put(None)
    for thread in running:
        thread.join()
    return sorted(results.get() for _ in range(120))


def processes():
    program = "import json,sys; print(json.dumps(sorted(json.load(sys.stdin), reverse=True)))"
    children = [
        subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    return [child.communicate(json.dumps(list(range(n, 3000))))[0] for n, child in enumerate(children)]


for seed in range(3):
    keep(containers(seed))
keep(threads())
keep(processes())
# Large blocks: grown, cut and shuffled about.
block = bytearray()
for n in range(200):
    block += bytes([n]) * (n * 400)
    if n % 5 == 0:
        del block[: len(block) // 3]
digest.update(block)
print(digest.hexdigest())

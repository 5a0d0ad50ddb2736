"""Swap devices and a memory cgroup for the kernel's side of a comparison; all of it ends with the context."""

import contextlib
import os
import pathlib
import subprocess
import threading
import time

ZSWAP = pathlib.Path("/sys/module/zswap/parameters")
PAGE_CLUSTER = pathlib.Path("/proc/sys/vm/page-cluster")
CONTROL = pathlib.Path("/sys/class/zram-control")
# cgroup v1: v2 counts no swap of a process against the same limit.
MEMORY = pathlib.Path("/sys/fs/cgroup/memory")


def retry(action, tries=50):
    """A swap or a cgroup is busy for a moment after its last user has ended."""
    for left in reversed(range(tries)):
        try:
            return action()
        except (OSError, subprocess.CalledProcessError):
            if left == 0:
                raise
            time.sleep(0.1)


def swap_in_use():
    return [line.split()[0] for line in pathlib.Path("/proc/swaps").read_text().splitlines()[1:]]


@contextlib.contextmanager
def swap_on(path):
    subprocess.run(["mkswap", path], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    subprocess.run(["swapon", path], check=True)
    try:
        yield
    finally:
        retry(lambda: subprocess.run(["swapoff", path], check=True))


@contextlib.contextmanager
def zram(size, algorithm):
    """A zram device as the only swap: the option that names its use of RAM."""
    number = (CONTROL / "hot_add").read_text().strip()
    block = pathlib.Path(f"/sys/block/zram{number}")
    try:
        (block / "comp_algorithm").write_text(algorithm)
        (block / "disksize").write_text(str(size))
        with swap_on(f"/dev/zram{number}"):
            yield ["--used", f"{block}/mm_stat:2"]
    finally:
        retry(lambda: (block / "reset").write_text("1"))
        retry(lambda: (CONTROL / "hot_remove").write_text(number))


def zswap_algorithm():
    """The first of the algorithms for zswap that the kernel has; unlike zram, it takes those of the crypto API alone."""
    names = [line.split()[-1] for line in pathlib.Path("/proc/crypto").read_text().splitlines() if line.startswith("name ")]
    return next((name for name in ("lz4", "lzo-rle", "lzo", "zstd") if name in names), None)


@contextlib.contextmanager
def no_readahead():
    """Swap-ins of one page each. With more, the OOM killer ends workers whose accesses are random, on zswap alone: zram is
    never read ahead."""
    before = PAGE_CLUSTER.read_text()
    PAGE_CLUSTER.write_text("0")
    try:
        yield
    finally:
        PAGE_CLUSTER.write_text(before)


@contextlib.contextmanager
def zswap(size, algorithm, folder):
    """zswap before a swap file, which it holds all pages for."""
    wanted = {"compressor": algorithm, "max_pool_percent": "50", "enabled": "Y"}
    before = {name: (ZSWAP / name).read_text().strip() for name in wanted}
    path = pathlib.Path(folder) / "swap"
    path.touch(mode=0o600)
    try:
        with open(path, "r+b") as file:
            os.posix_fallocate(file.fileno(), 0, size)
        for name, value in wanted.items():
            (ZSWAP / name).write_text(value)
        with swap_on(path):
            yield ["--used", "/proc/meminfo:Zswap"]
    finally:
        for name in reversed(wanted):
            (ZSWAP / name).write_text(before[name])
        path.unlink(missing_ok=True)


@contextlib.contextmanager
def cgroup():
    """A memory cgroup of the run's own."""
    folder = MEMORY / f"plimsoll-bench-pager-{os.getpid()}"
    folder.mkdir()
    ended = threading.Event()
    thread = threading.Thread(target=keep_statistics_fresh, args=(folder, ended))
    thread.start()
    try:
        (folder / "memory.swappiness").write_text("100")
        yield folder
    finally:
        ended.set()
        thread.join()
        retry(folder.rmdir)


def keep_statistics_fresh(folder, ended):
    """Has the kernel sum the statistics of a cgroup every 10 ms. Left alone, reclaim decides by those of up to 2 s ago, and the
    OOM killer ends processes although swap is free."""
    while not ended.wait(0.01):
        (folder / "memory.stat").read_text()


def oom_kills(folder):
    """Processes of a cgroup that its OOM killer has ended."""
    lines = (folder / "memory.oom_control").read_text().splitlines()
    return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), 0)

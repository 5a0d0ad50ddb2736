"""Benchmarks of several subjects in rounds: the interval of their ratios, and the machine that they ran on."""

import os
import pathlib
import platform
import random
import statistics


def interval(values, resamples=2000):
    """The median, and the interval of 95 % of medians of resamples."""
    generator = random.Random(1)
    medians = sorted(statistics.median(generator.choices(values, k=len(values))) for _ in range(resamples))
    return statistics.median(values), medians[resamples // 40], medians[-1 - resamples // 40]


def machine():
    """The properties of the machine that affect the results; not its name."""
    def field(path, key):
        lines = pathlib.Path(path).read_text().splitlines()
        return next((line.split(":", 1)[1].strip() for line in lines if line.startswith(key)), None)

    return {
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "cpu": field("/proc/cpuinfo", "model name"),
        "cpus": len(os.sched_getaffinity(0)),
        "mem_total": field("/proc/meminfo", "MemTotal"),
        "transparent_huge_pages": pathlib.Path("/sys/kernel/mm/transparent_hugepage/enabled").read_text().strip(),
        "load_average_at_start": os.getloadavg()[0],
    }

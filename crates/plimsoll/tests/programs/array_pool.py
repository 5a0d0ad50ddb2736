"""NumPy in a pool of forked processes, which inherit arrays and return others. Prints a line; equal on each run."""

import hashlib
import multiprocessing

import numpy

WORKERS = 4
numbers = numpy.random.default_rng(7).integers(0, 1 << 40, 4_000_000)


def ranks(part):
    own = numpy.array_split(numbers, WORKERS * 2)[part]
    return numpy.argsort(own, kind="stable").astype(numpy.int32)


if __name__ == "__main__":
    with multiprocessing.get_context("fork").Pool(WORKERS) as pool:
        results = pool.map(ranks, range(WORKERS * 2), chunksize=1)
    print("pool", [hashlib.sha256(result).hexdigest()[:16] for result in results])
    print("end", hashlib.sha256(numbers).hexdigest())

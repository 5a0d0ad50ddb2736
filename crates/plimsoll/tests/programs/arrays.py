"""NumPy in one process: a sort, a Fourier transform, and threads that sort. Prints a line for each; equal on each run."""

import hashlib
import threading

import numpy


def digest(array):
    return hashlib.sha256(numpy.ascontiguousarray(array)).hexdigest()


random = numpy.random.default_rng(7)
numbers = random.integers(0, 1 << 40, 2_000_000)
order = numpy.argsort(numbers, kind="stable")
print("sort", digest(order), bool((numpy.diff(numbers[order]) >= 0).all()))
del order

# Operations with one correct result. The last bit of a sine depends on the places of its arrays: NumPy takes arrays without a
# gap between them for overlapping ones, and computes them without vectors.
signal = numpy.abs(numpy.arange(1 << 19) % 628 - 314) * 0.01 + numbers[: 1 << 19] % 1009
spectrum = numpy.fft.rfft(signal)
returned = numpy.fft.irfft(spectrum)
print("transform", digest(spectrum.round(3)), bool(numpy.allclose(signal, returned)))
del spectrum, returned

parts = numpy.array_split(numbers, 4)
sorted_parts = [None] * len(parts)


def sort(part):
    sorted_parts[part] = numpy.sort(parts[part])


threads = [threading.Thread(target=sort, args=(part,)) for part in range(len(parts))]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print("threads", [digest(part)[:16] for part in sorted_parts])
print("end", digest(numbers), digest(signal))

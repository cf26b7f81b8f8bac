"""Makes decisions with the Python package `limits`, one after the other, and prints the results.

usage: python_limits.py REDIS_URL STRATEGY LIMIT KEYS_FILE all|SECONDS
"""

import json
import random
import sys
import time

import limits

url, strategy, limit, keys_file, amount = sys.argv[1:]
with open(keys_file) as file:
    keys = file.read().split()
storage = limits.storage.storage_from_string(url)
limiter = limits.strategies.STRATEGIES[strategy](storage)
item = limits.parse(limit)


def chosen_keys():
    """Yields all keys once, or random keys for some seconds."""
    if amount == "all":
        yield from keys
        return
    end = time.perf_counter() + float(amount)
    while time.perf_counter() < end:
        yield random.choice(keys)


took, allowed = [], 0
started = time.perf_counter()
for key in chosen_keys():
    before = time.perf_counter()
    allowed += limiter.hit(item, strategy, key)
    took.append(time.perf_counter() - before)
seconds = time.perf_counter() - started
took.sort()
at = lambda share: took[int(share * (len(took) - 1))] * 1e6
print(json.dumps({
    "decisions": len(took),
    "allowed": allowed,
    "seconds": seconds,
    "p50_us": at(0.5),
    "p99_us": at(0.99),
}))

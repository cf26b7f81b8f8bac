"""Uses the Python library limits: limits_library.py PORT. Prints what its strategies return."""

import sys
import time

import limits
from limits import RateLimitItemPerHour, RateLimitItemPerMinute, strategies
from limits.storage import storage_from_string

uri = f"redis://127.0.0.1:{sys.argv[1]}/2"
storage = storage_from_string(uri)
assert storage.check()
names = ["FixedWindowRateLimiter", "MovingWindowRateLimiter", "SlidingWindowCounterRateLimiter"]
for name in names:
    strategy = getattr(strategies, name, None)
    if strategy is None:  # The sliding window came with version 4.2.
        continue
    limiter = strategy(storage)
    item, small = RateLimitItemPerHour(5), RateLimitItemPerMinute(3)

    def stats(item, key):
        left = limiter.get_window_stats(item, key)
        return left.remaining, -1 <= left.reset_time - time.time() <= item.get_expiry() + 1

    print(name, "test", limiter.test(item, name), stats(item, name))
    for cost in [1, 2, 1, 2, 1, 1, 6, 0]:
        print(name, cost, limiter.hit(item, name, cost=cost), stats(item, name))
    print(name, "full", limiter.test(item, name))
    print(name, "other", limiter.hit(small, name), limiter.hit(small, f"{name}-b"), stats(small, f"{name}-b"))
    limiter.clear(item, name)
    print(name, "clear", limiter.test(item, name), limiter.hit(item, name), stats(item, name))
print("reset", storage.reset(), storage.reset())
print("fixed", storage.incr("a", 60, amount=3), storage.get("a"), storage.get("none"))
expiry = storage.get_expiry("a") - time.time()
print("expiry", 50 < expiry <= 60, storage.get_expiry("none") <= time.time())

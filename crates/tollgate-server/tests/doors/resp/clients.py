"""Uses the server through redis-py: clients.py PORT PROTOCOL TOKEN (may be empty)."""

import sys

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

port, protocol, token = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3] or None
r = redis.Redis(port=port, protocol=protocol, password=token, client_name="python", socket_timeout=20)
key = f"python-{protocol}-{token}"

assert r.ping() is True
assert r.echo("hello") == b"hello"
assert r.client_getname() in ("python", b"python")
assert isinstance(r.client_id(), int)
assert r.info()["redis_mode"] == "standalone"
assert r.command_count() > 10
assert "cl.throttle" in r.command()

assert r.execute_command("CL.THROTTLE", key, 1, 1, 60) == [0, 2, 1, -1, 60]
assert r.execute_command("CL.THROTTLE", key, 1, 1, 60) == [0, 2, 0, -1, 120]
limited, limit, left, retry, reset = r.execute_command("CL.THROTTLE", key, 1, 1, 60)
assert (limited, limit, left) == (1, 2, 0) and 58 <= retry <= 60 and 118 <= reset <= 120


def fields(reply):
    if isinstance(reply, list):
        assert protocol == 2
        return dict(zip(reply[::2], reply[1::2]))
    assert protocol == 3
    return reply


decision = fields(r.execute_command("TG.LIMIT", key, "10/s burst 20", "COST", 5))
assert decision[b"allowed"] == 1 and decision[b"limit"] == 20 and decision[b"remaining"] == 15
assert decision[b"rule"] is None and decision[b"retry_after_ms"] is None
decision = fields(r.execute_command("TG.CHECK", "shop", "route", "POST /login", "ip", f"192.0.2.{protocol}"))
assert decision[b"rule"] == b"login" and decision[b"code"] == 200
assert fields(decision[b"limits"][0])[b"window_s"] == 60

with r.pipeline(transaction=False) as pipe:
    for number in range(1000):
        pipe.execute_command("CL.THROTTLE", f"{key}-pipe", 9, 1, 3600)
        if number % 100 == 0:
            pipe.ping()
    answers = pipe.execute()
decisions = [answer for answer in answers if isinstance(answer, list)]
assert len(decisions) == 1000 and answers.count(True) == 10
assert [answer[0] for answer in decisions] == [0] * 10 + [1] * 990

# A pipeline of redis-py is a transaction unless it is told otherwise.
with r.pipeline() as pipe:
    for _ in range(12):
        pipe.execute_command("CL.THROTTLE", f"{key}-transaction", 9, 1, 3600)
    pipe.ttl(f"{key}-transaction")
    pipe.delete(f"{key}-transaction-none")
    answers = pipe.execute(raise_on_error=False)
assert [answer[0] for answer in answers[:12]] == [0] * 10 + [1] * 2, answers
assert 35_990 <= answers[12] <= 36_000, answers
if token:
    assert isinstance(answers[13], redis.exceptions.NoPermissionError), answers
else:
    assert answers[13] == 0, answers

throttle = r.register_script("return redis.call('CL.THROTTLE', KEYS[1], unpack(ARGV))")
assert throttle(keys=[f"{key}-script"], args=[1, 1, 60]) == [0, 2, 1, -1, 60]
assert throttle(keys=[f"{key}-script"], args=[1, 1, 60]) == [0, 2, 0, -1, 120]
other = redis.Redis(port=port, protocol=protocol, password=token, db=3)
assert other.execute_command("CL.THROTTLE", key, 1, 1, 60) == [0, 2, 1, -1, 60]

try:
    r.hgetall("x")
    raise SystemExit("HGETALL worked")
except redis.ResponseError as error:
    assert str(error).startswith("unknown command 'HGETALL', with args beginning with: 'x'"), error

if token:
    for wrong in (None, "wrong"):
        once = Retry(NoBackoff(), 0)
        try:
            redis.Redis(port=port, protocol=protocol, password=wrong, retry=once).ping()
            raise SystemExit(f"an invalid token was accepted: {wrong}")
        except redis.AuthenticationError:
            pass
print("ok")

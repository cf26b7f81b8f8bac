-- Texts that all nodes share, each with an expiry time by this server's clock.

local MOST = 10000

-- args: `keep`, the microseconds until it expires, and a text; `drop` and texts; or `all`. Returns for
-- `all` every text, each followed by the microseconds that are left to it.
local function notes(keys, args)
  local time = redis.call('TIME')
  local now = time[1] * 1000000 + time[2]
  redis.call('ZREMRANGEBYSCORE', keys[1], '-inf', string.format('%d', now))
  if args[1] == 'keep' then
    redis.call('ZADD', keys[1], string.format('%d', now + args[2]), args[3])
    redis.call('ZREMRANGEBYRANK', keys[1], 0, -MOST - 1)
    local last = redis.call('ZRANGE', keys[1], -1, -1, 'WITHSCORES')
    if last[2] then
      redis.call('PEXPIRE', keys[1], string.format('%d', math.max(last[2] - now, 0) / 1000 + 1))
    end
  elseif args[1] == 'drop' then
    redis.call('ZREM', keys[1], unpack(args, 2))
  else
    local texts = redis.call('ZRANGE', keys[1], 0, -1, 'WITHSCORES')
    for i = 2, #texts, 2 do
      texts[i] = string.format('%d', texts[i] - now)
    end
    return texts
  end
  return {}
end

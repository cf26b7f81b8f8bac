-- The nodes that share the counters, with the time of their last heartbeat; and the time at which
-- one of them last gave units back, so that the others drop their cached refusals.

local SILENT, GAVE = 5000000, 'gave back'

-- args: the name of the node, `here` or `gone`, and whether it gave units back (1) since its last
-- heartbeat. Returns the number of nodes, and when units were given back (0: not recently).
local function nodes(keys, args)
  local time = redis.call('TIME')
  local now = time[1] * 1000000 + time[2]
  if args[2] == 'gone' then
    redis.call('ZREM', keys[1], args[1])
  else
    redis.call('ZADD', keys[1], string.format('%d', now), args[1])
  end
  if args[3] == '1' then
    redis.call('ZADD', keys[1], string.format('%d', now), GAVE)
  end
  redis.call('PEXPIRE', keys[1], 2 * SILENT / 1000)
  redis.call('ZREMRANGEBYSCORE', keys[1], '-inf', string.format('(%d', now - SILENT))
  -- A heartbeat of the future is older than a step of the clock; nodes that live send another.
  redis.call('ZREMRANGEBYSCORE', keys[1], string.format('(%d', now), '+inf')
  local gave = redis.call('ZSCORE', keys[1], GAVE)
  return { redis.call('ZCARD', keys[1]) - (gave and 1 or 0), gave and tonumber(gave) or 0 }
end

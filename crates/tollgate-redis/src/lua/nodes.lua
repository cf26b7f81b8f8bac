-- Who shares the counters: names of nodes with when each was last heard of; and when one of them last
-- gave something back, which others must know who refuse what they think is exhausted.

local SILENT, GAVE = 5000000, 'gave back'

-- args: the node's name, whether it is `here` or `gone`, and whether it gave something back (1) since
-- it last said. The answer: how many nodes there are, and when something was given back, if lately.
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
  local gave = redis.call('ZSCORE', keys[1], GAVE)
  return { redis.call('ZCARD', keys[1]) - (gave and 1 or 0), gave and tonumber(gave) or 0 }
end

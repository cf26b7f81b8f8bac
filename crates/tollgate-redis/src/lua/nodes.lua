-- Who shares the counters: names of nodes with when each was last heard of.

local SILENT = 5000000

-- args: the node's name, and whether it is `here` or `gone`. The answer: how many nodes there are.
local function nodes(keys, args)
  local time = redis.call('TIME')
  local now = time[1] * 1000000 + time[2]
  if args[2] == 'gone' then
    redis.call('ZREM', keys[1], args[1])
  else
    redis.call('ZADD', keys[1], string.format('%d', now), args[1])
    redis.call('PEXPIRE', keys[1], 2 * SILENT / 1000)
  end
  redis.call('ZREMRANGEBYSCORE', keys[1], '-inf', string.format('(%d', now - SILENT))
  return redis.call('ZCARD', keys[1])
end

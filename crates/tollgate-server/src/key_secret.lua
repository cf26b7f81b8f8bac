-- Returns the secret of all servers that share this store; the first of them sets it.
local function key_secret(keys, args)
  local known = redis.call('HMGET', keys[1], 'secret')[1]
  if known then return known end
  redis.call('HSET', keys[1], 'secret', args[1])
  return args[1]
end

-- GCRA as users commonly write it: one number, the next expected arrival time, in microseconds.
-- KEYS[1]: the number. ARGV: burst, microseconds for each, cost.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local burst, each, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local due = math.max(now, tonumber(redis.call('GET', KEYS[1])) or now)
local next = due + each * cost
local spare = now + burst * each - next
if spare < 0 then
  return { 0, 0 }
end
redis.call('SET', KEYS[1], string.format('%.0f', next), 'PX', math.ceil((next - now) / 1000))
return { 1, math.floor(spare / each) }

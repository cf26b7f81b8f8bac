-- GCRA as people write it: one number, the arrival time that is expected next, in microseconds.
-- KEYS[1]: the number. ARGV: burst, microseconds for each, cost.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local burst, each, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local due = math.max(now, tonumber(redis.call('GET', KEYS[1])) or now)
local next = due + each * cost
local room = now + burst * each - next
if room < 0 then
  return { 0, 0 }
end
redis.call('SET', KEYS[1], string.format('%.0f', next), 'PX', math.ceil((next - now) / 1000))
return { 1, math.floor(room / each) }

-- Mirrors together.rs: all checks of a request, or none.

-- The time, and whether the caller still waits. Tests bring a time of their own.
local function clock(args)
  local now = tonumber(args[1])
  if now == 0 then
    local time = redis.call('TIME')
    now = time[1] * 1000000 + time[2]
  end
  local deadline = tonumber(args[2])
  return now, deadline > 0 and now > deadline
end

-- A state never outlives its use. Time of a test's own may stand still while the server's goes on.
local function put(key, state, matters, args)
  if matters <= 0 then
    state = false
  end
  if not state then
    redis.call('DEL', key)
    return
  end
  local slack = args[1] == '0' and 2 or 3600000
  redis.call('SET', key, state, 'PX', string.format('%.0f', math.floor(matters / 1000) + slack))
end

-- kinds that need no algorithm: looked at, refused whatever its state, forgotten
algorithms.n = function(_, _, _, at)
  return at, PASSES
end
algorithms.x = function(_, _, _, at)
  return at, REFUSED
end
algorithms.d = function(_, _, _, at)
  return at, PASSES, false
end

-- args: time or 0, deadline or 0, action (T take, S spend, R refund, X release), then for each key
-- whether it may be elsewhere (F) or not (-), its kind and what that takes.
-- The answer: the time, a code, and the states as they were.
local function run(keys, args)
  local now, late = clock(args)
  if late then
    return { now, LATE }
  end
  local action, count = args[3], #keys
  local states = count == 1 and { redis.call('GET', keys[1]) } or redis.call('MGET', unpack(keys))
  local at, outcome = 4, PASSES
  local codes, after, matters, begun = {}, {}, {}, {}
  for i = 1, count do
    if args[at] == 'F' and not states[i] then
      outcome = BEYOND
      break
    end
    local decide = algorithms[args[at + 1]]
    at, codes[i], after[i], matters[i], begun[i] = decide(states[i], now, args, at + 2, action)
    if codes[i] > LATE then
      outcome = codes[i]
      break
    elseif codes[i] == REFUSED then
      outcome = REFUSED
    end
  end
  if outcome <= PASSES then
    for i = 1, count do
      local state = after[i]
      if codes[i] ~= outcome then
        state = begun[i]
      end
      if state or (state == false and states[i]) then
        put(keys[i], state, matters[i] or 0, args)
      end
    end
  end
  local answer = { now, outcome }
  for i = 1, count do
    answer[i + 2] = states[i]
  end
  return answer
end

-- args: time or 0, deadline or 0. The answer: the time, a code, the states.
local function read(keys, args)
  local now = clock(args)
  local answer = { now, PASSES }
  for i, state in ipairs(redis.call('MGET', unpack(keys))) do
    answer[i + 2] = state
  end
  return answer
end

-- args: time or 0, deadline or 0, then for each key what its state was (-: none), what it shall be
-- (-: none) and for how many microseconds that matters. Writes all if nothing has changed.
local function swap(keys, args)
  local now, late = clock(args)
  if late then
    return { now, LATE }
  end
  local states = redis.call('MGET', unpack(keys))
  local answer = { now, PASSES }
  for i = 1, #keys do
    if (states[i] or '-') ~= args[3 * i] then
      answer[2] = REFUSED
    end
    answer[i + 2] = states[i]
  end
  if answer[2] == PASSES then
    for i = 1, #keys do
      local state = args[3 * i + 1]
      if state ~= args[3 * i] then
        put(keys[i], state ~= '-' and state, tonumber(args[3 * i + 2]), args)
      end
    end
  end
  return answer
end

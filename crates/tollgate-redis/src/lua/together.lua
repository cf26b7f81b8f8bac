-- Mirrors together.rs: all checks of a request, or none.
--
-- The counters of one key are the fields of one hash, so that any number of limits on it is read and
-- written at once. Its field `e` says until when, in milliseconds, Redis keeps it.

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

-- Writes some fields, which matter for so many microseconds, and forgets others. The end is put off
-- by more than needed, so that it need not be at every request.
local function put(key, fields, matters, gone, ends, now, args)
  if #fields > 0 then
    local ms = matters / 1000
    local extends = now / 1000 + ms > ends
    if extends then
      ms = math.floor(ms * 2) + 1000
      fields[#fields + 1] = 'e'
      fields[#fields + 1] = math.floor(now / 1000) + ms
    end
    redis.call('HSET', key, unpack(fields))
    if extends then
      -- Time of a test's own may stand still while the server's goes on.
      redis.call('PEXPIRE', key, string.format('%.0f', args[1] == '0' and ms or ms + 3600000))
    end
  end
  if #gone > 0 then
    redis.call('HDEL', key, unpack(gone))
    if redis.call('HLEN', key) <= 1 then
      redis.call('DEL', key)
    end
  end
end

-- kinds that need no algorithm: looked at, refused whatever its state, forgotten
algorithms.n = function()
  return PASSES
end
algorithms.x = function()
  return REFUSED
end
algorithms.d = function()
  return PASSES, false
end

-- The fields named at every `step`th argument, with how long the hash is kept in front.
local function look(key, args, at, count, step)
  if count == 1 then
    return redis.call('HMGET', key, 'e', args[at])
  end
  local names = { 'e' }
  for i = 1, count do
    names[i + 1] = args[at + (i - 1) * step]
  end
  return redis.call('HMGET', key, unpack(names))
end

-- args: time or 0, deadline or 0, action (T take, S spend, R refund, X release), then for each key how
-- many checks are about it, and for each of those its field, its kind (and F if it may be elsewhere)
-- and its numbers. The answer: the time, a code, and the states as they were.
local function run(keys, args)
  local now, late = clock(args)
  if late then
    return { now, LATE }
  end
  local action, at, outcome, check = args[3], 4, PASSES, 0
  local answer, held = { now, PASSES }, {}
  local codes, after, matters, begun = {}, {}, {}, {}
  for k = 1, #keys do
    local count = tonumber(args[at])
    held[k] = look(keys[k], args, at + 1, count, 3)
    for i = 1, count do
      check = check + 1
      local state, kind = held[k][i + 1], args[at + 2]
      answer[check + 2] = state
      if #kind > 1 then
        kind = state and string.sub(kind, 1, 1)
      end
      if kind then
        codes[check], after[check], matters[check], begun[check] =
          algorithms[kind](state, now, args[at + 3], action)
      else
        codes[check] = BEYOND
      end
      if codes[check] > LATE then
        return { now, codes[check] }
      elseif codes[check] == REFUSED then
        outcome = REFUSED
      end
      at = at + 3
    end
    at = at + 1
  end
  answer[2] = outcome
  at, check = 4, 0
  for k = 1, #keys do
    local fields, gone, longest = {}, {}, 0
    for i = 1, #held[k] - 1 do
      check = check + 1
      -- What would have passed alone is not kept; a refusal is, where refusals count.
      local state = after[check]
      if codes[check] ~= outcome then
        state = begun[check]
      end
      if state and matters[check] > 0 then
        fields[#fields + 1] = args[at + 1]
        fields[#fields + 1] = state
        longest = matters[check] > longest and matters[check] or longest
      elseif state ~= nil and held[k][i + 1] then
        gone[#gone + 1] = args[at + 1]
      end
      at = at + 3
    end
    at = at + 1
    put(keys[k], fields, longest, gone, tonumber(held[k][1] or 0), now, args)
  end
  return answer
end

-- args: time or 0, deadline or 0, then for each key how many fields of it are asked for, and their
-- names. The answer: the time, a code, the states.
local function read(keys, args)
  local answer, at = { clock(args), PASSES }, 3
  for k = 1, #keys do
    local count = tonumber(args[at])
    local states = look(keys[k], args, at + 1, count, 1)
    for i = 1, count do
      answer[#answer + 1] = states[i + 1]
    end
    at = at + 1 + count
  end
  return answer
end

-- args: time or 0, deadline or 0, then for each key how many fields of it there are, and for each its
-- name, what its state was (-: none), what it shall be (-: none) and for how many microseconds that
-- matters. Writes all if nothing has changed.
local function swap(keys, args)
  local now, late = clock(args)
  if late then
    return { now, LATE }
  end
  local answer, at, held = { now, PASSES }, 3, {}
  for k = 1, #keys do
    local count = tonumber(args[at])
    held[k] = look(keys[k], args, at + 1, count, 4)
    for i = 1, count do
      local state = held[k][i + 1]
      answer[#answer + 1] = state
      if (state or '-') ~= args[at + 4 * i - 2] then
        answer[2] = REFUSED
      end
    end
    at = at + 1 + 4 * count
  end
  if answer[2] == REFUSED then
    return answer
  end
  at = 3
  for k = 1, #keys do
    local fields, gone, longest = {}, {}, 0
    for i = 1, #held[k] - 1 do
      local name, was, shall_be, matters = unpack(args, at + 4 * i - 3, at + 4 * i)
      if shall_be == '-' and was ~= '-' then
        gone[#gone + 1] = name
      elseif shall_be ~= was then
        fields[#fields + 1] = name
        fields[#fields + 1] = shall_be
        longest = math.max(longest, tonumber(matters))
      end
    end
    put(keys[k], fields, longest, gone, tonumber(held[k][1] or 0), now, args)
    at = at + 1 + 4 * (#held[k] - 1)
  end
  return answer
end

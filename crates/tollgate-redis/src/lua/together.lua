-- Mirrors the memory store: decides all checks of a request, or none.
--
-- The counters of one key are the fields of one hash, so that any number of limits on it is read
-- and written at once. Its field `e` is the time, in microseconds, at which Redis lets it expire.

-- Returns the time, whether the deadline has passed, and by how many milliseconds to delay expiry:
-- the time that tests send may stand still while that of the server goes on.
local function clock(args)
  unpack_doubles, pack_doubles = struct.unpack, struct.pack
  local now, deadline = unpack_doubles('<dd', args[1])
  if now > 0 then
    return now, false, 3600000
  end
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
  return now, deadline > 0 and now > deadline, 0
end

-- Adds a state to the changes of a hash: names and states in turn, the longest time for which they
-- matter, and the fields to delete. `had` says whether there was a state.
local function note(page, name, state, matters, had)
  if state and matters > 0 then
    local size = #page
    page[size + 1], page[size + 2] = name, state
    if matters > page.matters then
      page.matters = matters
    end
  elseif had then
    page.gone = page.gone or {}
    page.gone[#page.gone + 1] = name
  end
end

-- Writes the changes of a hash. Its expiry is delayed by more than needed, so that it need not be
-- at every request.
local function put(key, page, ends, now, slack)
  local size = #page
  if size > 0 then
    local matters = page.matters
    if not ends or now + matters > unpack_doubles('<d', ends) then
      matters = 2 * matters + 1000000
      page[size + 1], page[size + 2] = 'e', pack_doubles('<d', now + matters)
      redis.call('HSET', key, unpack(page))
      redis.call('PEXPIRE', key, string.format('%d', matters / 1000 + slack))
    else
      redis.call('HSET', key, unpack(page))
    end
  end
  if page.gone then
    redis.call('HDEL', key, unpack(page.gone))
    if redis.call('HLEN', key) <= 1 then
      redis.call('DEL', key)
    end
  end
end

-- Kinds without an algorithm: read only, always refused, deleted.
algorithms.n = function()
  return PASSES
end
algorithms.x = function()
  return REFUSED
end
algorithms.d = function()
  return PASSES, false
end

-- Reads the fields named at every `step`th argument, preceded by the expiry of the hash.
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

-- Decides on a state that was moved back. It is written even if the check is refused: otherwise it
-- would be moved back again at the next request, and the key would never recover.
local function again(kind, state, lasts, now, numbers, action)
  local code, after, matters, begun = algorithms[kind](state, now, numbers, action)
  if code == PASSES or code == REFUSED then
    if after == nil then
      after = state
    end
    if code == PASSES and begun == nil then
      begun = state
    end
    matters = math.max(matters or 0, lasts)
  end
  return code, after, matters, begun
end

-- args: time and deadline (0: none), action (T take, S spend, R refund, X release, K renew), then
-- for each key the number of its checks, and for each check its field, its kind (and F if its state
-- may be in the counter of a previous limit) and its numbers. Returns the time, a code, and the
-- states as they were.
local function run(keys, args)
  local now, late, slack = clock(args)
  if late then
    return { now, LATE }
  end
  local action, at, answer, size = args[2], 3, { now, PASSES }, 2
  local ends, passed, refused = {}, {}, {}
  for k = 1, #keys do
    local count = tonumber(args[at])
    local states = look(keys[k], args, at + 1, count, 3)
    local page = { matters = 0 }
    ends[k], passed[k] = states[1], page
    for i = 2, count + 1 do
      local state, name, kind = states[i], args[at + 1], args[at + 2]
      size = size + 1
      answer[size] = state
      if #kind > 1 then
        kind = string.sub(kind, 1, 1)
        if not state then
          return { now, BEYOND }
        end
      end
      local code, after, matters, begun = algorithms[kind](state, now, args[at + 3], action)
      if code == STEPPED then
        code, after, matters, begun = again(kind, after, matters, now, args[at + 3], action)
      end
      if code == PASSES then
        if after ~= nil then
          note(page, name, after, matters, state)
        end
        after = begun
      elseif code == REFUSED then
        answer[2] = REFUSED
      else
        return { now, code }
      end
      -- A refused request writes refusals where they count, keys that begin, and states that were
      -- moved back.
      if after ~= nil then
        refused[k] = refused[k] or { matters = 0 }
        note(refused[k], name, after, matters, state)
      end
      at = at + 3
    end
    at = at + 1
  end
  local pages = answer[2] == PASSES and passed or refused
  for k = 1, #keys do
    if pages[k] then
      put(keys[k], pages[k], ends[k], now, slack)
    end
  end
  return answer
end

-- args: time and deadline (0: none), then for each key the number of its fields, and their names.
-- Returns the time, a code, and the states.
local function read(keys, args)
  local answer, at = { clock(args), PASSES }, 2
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

-- args: time and deadline (0: none), then for each key the number of its fields, and for each field
-- its name, its old state (-: none), its new state (-: none) and for how many microseconds that
-- matters. Writes all new states if no old state has changed.
local function swap(keys, args)
  local now, late, slack = clock(args)
  if late then
    return { now, LATE }
  end
  local answer, at, fields = { now, PASSES }, 2, {}
  for k = 1, #keys do
    local count = tonumber(args[at])
    fields[k] = look(keys[k], args, at + 1, count, 4)
    for i = 1, count do
      local state = fields[k][i + 1]
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
  at = 2
  for k = 1, #keys do
    local page = { matters = 0 }
    for i = 1, #fields[k] - 1 do
      local name, was, shall_be, matters = unpack(args, at + 4 * i - 3, at + 4 * i)
      if shall_be ~= was then
        note(page, name, shall_be ~= '-' and shall_be, tonumber(matters), was ~= '-')
      end
    end
    put(keys[k], page, fields[k][1], now, slack)
    at = at + 1 + 4 * (#fields[k] - 1)
  end
  return answer
end

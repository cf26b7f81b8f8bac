-- Mirrors fixed_window.rs. The state is the end of the window and what is spent in it, including
-- what is borrowed from later windows.

local function read(text)
  if not text then
    return 0, 0
  end
  local ends, used = string.match(text, '^(%d+):(%d+)$')
  return tonumber(ends), tonumber(used)
end

local function write(ends, used)
  return string.format('%d:%d', ends, used)
end

local function charge(used, cost, action)
  if action == 'R' then
    return used > cost and used - cost or 0
  end
  return used + cost
end

-- numbers: limit, length, phase (-1: the first hit opens a window), whether refusals count, cost,
-- wait, what may be spent for the check to pass (-1: it never can)
algorithms.f = function(text, now, numbers, action)
  local limit, length, phase, counts, cost, wait, most = unpack_doubles('<ddddddd', numbers)
  counts = counts == 1
  local ends, used = read(text)
  if ends > MAX or used > MAX then
    return BEYOND
  end
  -- Returns the end of the window of a first hit now.
  local function end_after()
    local ends = now + length
    if phase >= 0 then
      ends = ends - (now - phase) % length
    end
    return ends
  end
  -- Moves to the current window. Windows that have ended pay off what was borrowed from them.
  local function rolled()
    if now < ends and used > 0 then
      return
    end
    if used > limit and not counts then
      local ended = 1 + math.floor((now - ends) / length)
      if ended < math.ceil(used / limit) then
        ends, used = ends + ended * length, used - ended * limit
        return
      end
    end
    used = 0
    ends = end_after()
  end
  -- Returns the end of the window in which what is spent is paid off down to `allowance`.
  local function paid_off(allowance)
    local owed = used - allowance
    if owed <= 0 then
      return 0
    elseif owed <= limit or counts then
      return ends
    end
    return ends + math.floor((owed - 1) / limit) * length
  end
  local function judge()
    return most >= 0 and paid_off(most) - now <= wait
  end
  if used > 0 and ends > now and ends > end_after() then
    ends = end_after()
    return STEPPED, write(ends, used), paid_off(0) - now
  end
  rolled()
  used = charge(used, cost, action)
  local full = paid_off(0)
  if used > MAX or full > MAX then
    return BEYOND
  end
  local state = used > 0 and write(ends, used)
  if action == 'T' and not judge() then
    return REFUSED, counts and state or nil, full - now
  end
  return PASSES, state, full - now
end

-- numbers of a calendar window: limit, start and end of the period, whether refusals count, cost,
-- wait, what may be spent for the check to pass (-1: it never can)
algorithms.c = function(text, now, numbers, action)
  local limit, from, to, counts, cost, wait, most = unpack_doubles('<ddddddd', numbers)
  counts = counts == 1
  if now < from or now >= to then
    return STALE
  end
  local ends, used = read(text)
  if used > 0 and ends > to and ends <= MAX then
    return STEPPED, write(to, used), to - now
  end
  if now >= ends or used == 0 then
    if used > limit and not counts then
      return BEYOND
    end
    ends, used = to, 0
  end
  used = charge(used, cost, action)
  if used > MAX or ends > MAX then
    return BEYOND
  end
  used = used > limit * 1000 and limit * 1000 or used
  local state = used > 0 and write(ends, used)
  if used > limit then
    if action ~= 'T' or wait > 0 then
      -- Only the caller, which has the calendar, knows when that is paid off.
      if not counts then
        return BEYOND
      end
    end
    if action == 'T' then
      return REFUSED, counts and state or nil, ends - now
    end
  end
  if action == 'T' and used > most then
    return REFUSED, counts and state or nil, ends - now
  end
  return PASSES, state, ends - now
end

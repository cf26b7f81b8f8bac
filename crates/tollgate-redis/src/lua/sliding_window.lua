-- Mirrors sliding_window.rs. The state is the start of the current window, the count of the
-- previous window, and the count of the current one.

local function read(text)
  if not text then
    return 0, 0, 0
  end
  local start, previous, current = string.match(text, '^(%d+):(%d+):(%d+)$')
  return tonumber(start), tonumber(previous), tonumber(current)
end

local function rolled(start, previous, current, length, now)
  local since = now - start
  if since < length then
    return start, previous, current
  elseif since < 2 * length then
    return start + length, current, 0
  end
  return now - now % length, 0, 0
end

local function estimate(start, previous, current, length, now)
  local left = length - (now > start and now - start or 0)
  return muldiv(previous, left, length) + current
end

local function charge(previous, current, cost, action)
  if action ~= 'R' then
    return previous, current + cost
  elseif current >= cost then
    return previous, current - cost
  end
  local older = cost - current
  return previous > older and previous - older or 0, 0
end

-- Returns whether at most `most` is spent at `now`.
local function judge(start, previous, current, length, now, most)
  start, previous, current = rolled(start, previous, current, length, now)
  return estimate(start, previous, current, length, now) <= most
end

-- numbers: length, whether refusals count, cost, wait, what may be spent for the check to pass (-1:
-- it never can)
algorithms.w = function(text, now, numbers, action)
  local length, counts, cost, wait, most = unpack_doubles('<ddddd', numbers)
  counts = counts == 1
  local start, previous, current = read(text)
  if previous > 2251799813685247 or current > MAX or start > MAX then
    return BEYOND
  end
  if start > now then
    start = now - now % length
    return STEPPED, string.format('%d:%d:%d', start, previous, current), start + 2 * length - now
  end
  start, previous, current = rolled(start, previous, current, length, now)
  if estimate(start, previous, current, length, now) == 0 then
    previous = 0 -- As good as new.
  end
  previous, current = charge(previous, current, cost, action)
  if current > 2251799813685247 then
    return BEYOND
  end
  local state = previous + current > 0 and string.format('%d:%d:%d', start, previous, current)
  local full = start + 2 * length - now
  local latest = now + wait
  latest = latest > MAX and MAX or latest
  if action == 'T' then
    if not judge(start, previous, current, length, latest, most) then
      return REFUSED, counts and state or nil, full
    end
  end
  return PASSES, state, full
end

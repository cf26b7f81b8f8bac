-- Mirrors meter.rs: token bucket, leaky bucket, GCRA. The state is the theoretical arrival time:
-- whole microseconds, and parts of the next one, of which there are `scale`.

-- Reads one double, two if there are parts, or three with the time of writing of a debt: reading and
-- writing digits would cost more than the decision. A counter whose limit varies always has the time
-- of writing. A longer text holds numbers that Lua cannot represent.
local function read(state)
  if not state then
    return 0, 0
  elseif #state == 8 then
    return (unpack_doubles('<d', state)), 0
  elseif #state == 16 then
    local us, part = unpack_doubles('<dd', state)
    return us, part
  elseif #state == 24 then
    return unpack_doubles('<ddd', state)
  end
  return MAX + 1, 0
end

-- `empty_us` and `empty_part` are the arrival time of an empty bucket without debt. `varies` says
-- whether other limits use the counter: what is no debt under one may be one under the next.
local function write(us, part, now, empty_us, empty_part, varies)
  if varies or us > empty_us or (us == empty_us and part > empty_part) then
    return pack_doubles('<ddd', us, part, now)
  elseif part == 0 then
    return pack_doubles('<d', us)
  end
  return pack_doubles('<dd', us, part)
end

-- Returns the state of a clock that stepped back, and how long it matters.
local function rewind(us, part, written, now, empty_us, empty_part, varies)
  if written then
    us = us - (written - now)
    if us < 0 then
      us, part = 0, 0
    end
  else
    us, part = empty_us, empty_part
  end
  return write(us, part, now, empty_us, empty_part, varies), us - now + 1
end

-- Spends (or refunds) the time `t`, after everything due by `since` has refilled.
local function charge(us, part, since, t_us, t_part, scale, action)
  if us < since then
    us, part = since, 0
  end
  if action == 'R' then
    us, part = us - t_us, part - t_part
    if part < 0 then
      us, part = us - 1, part + scale
    end
    if us < 0 then
      us, part = 0, 0
    end
    return us, part
  end
  us, part = us + t_us, part + t_part
  if part >= scale then
    us, part = us + 1, part - scale
  end
  return us, part
end

-- Returns whether the arrival time is at most the bound.
local function judge(us, part, bound_us, bound_part)
  return us < bound_us or (us == bound_us and part <= bound_part)
end

-- numbers of a plain meter: scale, time of the cost, sum of depth and maximum wait, depth
local function plain(text, now, numbers, action, varies)
  local scale, t_us, t_part, bound_us, bound_part, depth_us, depth_part =
    unpack_doubles('<ddddddd', numbers)
  local us, part, written = read(text)
  if us > MAX then
    return BEYOND
  end
  local empty_us = now + depth_us
  if us >= empty_us and (us > empty_us or part > depth_part) and (not written or written > now) then
    return STEPPED, rewind(us, part, written, now, empty_us, depth_part, varies)
  end
  us, part = charge(us, part, now, t_us, t_part, scale, action)
  if us > MAX then
    return BEYOND
  end
  if action == 'T' and not judge(us - now, part, bound_us, bound_part) then
    return REFUSED
  end
  return PASSES, write(us, part, now, empty_us, depth_part, varies), us - now + (part > 0 and 1 or 0)
end

algorithms.m = function(text, now, numbers, action)
  return plain(text, now, numbers, action, false)
end

-- A plain meter whose limit varies: the scale is the same under each of its limits.
algorithms.v = function(text, now, numbers, action)
  return plain(text, now, numbers, action, true)
end

-- numbers of a meter with options: scale, time of the cost, depth less what must be left, wait,
-- interval and its offset (0: none), what a new key owes, how far ahead requests are not delayed (-1:
-- none), whether the cost is paid later, depth
algorithms.M = function(text, now, numbers, action)
  local scale, t_us, t_part, depth_us, depth_part, wait, interval, offset, owed_us, owed_part,
    smooth_us, smooth_part, later, empty_us, empty_part =
    unpack_doubles('<ddddddddddddddd', numbers)
  -- Returns the last time up to `moment` at which tokens were refilled.
  local function refilled_at(moment)
    if interval == 0 then
      return moment
    end
    moment = moment + offset
    return moment - moment % interval
  end
  local since = refilled_at(now)
  local us, part, written = read(text)
  if us > MAX then
    return BEYOND
  end
  empty_us = since + empty_us
  if us >= empty_us and (us > empty_us or part > empty_part) and (not written or written > now) then
    local state, matters = rewind(us, part, written, now, empty_us, empty_part)
    return STEPPED, state, matters + interval
  end
  -- A key that does not start full begins now, whether the check passes or not.
  local begun
  if judge(us, part, since, 0) then
    us, part = since + owed_us, owed_part
    begun = owed_us + owed_part > 0 and write(us, part, now, empty_us, empty_part) or nil
  end
  local latest = refilled_at(now + wait > MAX and MAX or now + wait)
  local function conforms(ahead_us, ahead_part)
    return judge(us - latest, part, ahead_us, ahead_part)
  end
  local passes = true
  if later == 1 then
    passes = conforms(depth_us, depth_part)
  end
  us, part = charge(us, part, since, t_us, t_part, scale, action)
  if us > MAX then
    return BEYOND
  end
  if later == 0 then
    passes = conforms(depth_us, depth_part)
      and (wait == 0 or smooth_us < 0 or conforms(smooth_us, smooth_part))
  end
  if action == 'T' and not passes then
    return REFUSED, begun, owed_us + 1 + interval
  end
  if judge(us, part, since, 0) then
    return PASSES, false
  end
  return PASSES, write(us, part, now, empty_us, empty_part), us - since + 1 + interval, begun
end

-- Mirrors meter.rs: token bucket, leaky bucket, GCRA. The state is the theoretical arrival time:
-- whole microseconds, and parts of the next one, of which there are `scale`.

-- Reads one double, or two if there are parts: reading and writing digits would cost more than the
-- decision. A longer text holds numbers that Lua cannot represent.
local function read(state)
  if not state then
    return 0, 0
  elseif #state == 8 then
    return (unpack_doubles('<d', state)), 0
  elseif #state == 16 then
    return unpack_doubles('<dd', state)
  end
  return MAX + 1, 0
end

local function write(us, part)
  if part == 0 then
    return pack_doubles('<d', us)
  end
  return pack_doubles('<dd', us, part)
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

-- numbers of a plain meter: scale, time of the cost, sum of depth and maximum wait
algorithms.m = function(text, now, numbers, action)
  local scale, t_us, t_part, bound_us, bound_part = unpack_doubles('<ddddd', numbers)
  local us, part = read(text)
  if us > MAX then
    return BEYOND
  end
  us, part = charge(us, part, now, t_us, t_part, scale, action)
  if us > MAX then
    return BEYOND
  end
  if action == 'T' and not judge(us - now, part, bound_us, bound_part) then
    return REFUSED
  end
  return PASSES, write(us, part), us - now + (part > 0 and 1 or 0)
end

-- numbers of a meter with options: scale, time of the cost, depth, wait, interval and its offset
-- (0: none), what a new key owes, how far ahead requests are not delayed (-1: none), whether the
-- cost is paid later
algorithms.M = function(text, now, numbers, action)
  local scale, t_us, t_part, depth_us, depth_part, wait, interval, offset, owed_us, owed_part,
    smooth_us, smooth_part, later = unpack_doubles('<ddddddddddddd', numbers)
  -- Returns the last time up to `moment` at which tokens were refilled.
  local function refilled_at(moment)
    if interval == 0 then
      return moment
    end
    moment = moment + offset
    return moment - moment % interval
  end
  local since = refilled_at(now)
  local us, part = read(text)
  if us > MAX then
    return BEYOND
  end
  -- A key that does not start full begins now, whether the check passes or not.
  local begun
  if judge(us, part, since, 0) then
    us, part = since + owed_us, owed_part
    begun = owed_us + owed_part > 0 and write(us, part) or nil
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
  return PASSES, write(us, part), us - since + 1 + interval, begun
end

-- Mirrors meter.rs: token bucket, leaky bucket, GCRA. The state is the theoretical arrival time:
-- whole microseconds, and parts of the next one, of which there are `scale`.

local function read(text)
  local us = tonumber(text)
  if us then
    return us, 0
  end
  local whole, part = string.match(text, '^(%d+):(%d+)$')
  return tonumber(whole), tonumber(part)
end

local function write(us, part)
  if part == 0 then
    return string.format('%.0f', us)
  end
  return string.format('%.0f:%.0f', us, part)
end

-- Spends (or gives back) the time `t` takes, everything due by `since` having come back.
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

-- Whether the arrival time is no later than that.
local function judge(us, part, bound_us, bound_part)
  return us < bound_us or (us == bound_us and part <= bound_part)
end

-- plain: scale, time of the cost, depth and what may be waited together
algorithms.m = function(text, now, args, at, action)
  local scale = tonumber(args[at])
  local us, part = 0, 0
  if text then
    us, part = read(text)
    if us > MAX then
      return at + 5, BEYOND
    end
  end
  us, part = charge(us, part, now, tonumber(args[at + 1]), tonumber(args[at + 2]), scale, action)
  if us > MAX then
    return at + 5, BEYOND
  end
  if action == 'T' and not judge(us - now, part, tonumber(args[at + 3]), tonumber(args[at + 4])) then
    return at + 5, REFUSED
  end
  return at + 5, PASSES, write(us, part), us - now + (part > 0 and 1 or 0)
end

-- with options: scale, time of the cost, depth, wait, interval and its offset (0: none), what a new
-- key owes, how far ahead is not held back (-1: none), whether one pays later
algorithms.M = function(text, now, args, at, action)
  local n = {}
  for i = 0, 12 do
    n[i] = tonumber(args[at + i])
  end
  local scale, depth_us, depth_part, wait = n[0], n[3], n[4], n[5]
  local interval, offset = n[6], n[7]
  -- The last moment by `moment` at which tokens came back.
  local function refilled_at(moment)
    if interval == 0 then
      return moment
    end
    moment = moment + offset
    return moment - moment % interval
  end
  local since = refilled_at(now)
  local us, part = 0, 0
  if text then
    us, part = read(text)
    if us > MAX then
      return at + 13, BEYOND
    end
  end
  -- A key that starts with less than all begins now, whether it gets anything or not.
  local begun
  if judge(us, part, since, 0) then
    us, part = since + n[8], n[9]
    begun = n[8] + n[9] > 0 and write(us, part) or nil
  end
  local matters = n[8] + 1 + interval
  local latest = refilled_at(now + wait > MAX and MAX or now + wait)
  local function conforms(ahead_us, ahead_part)
    return judge(us - latest, part, ahead_us, ahead_part)
  end
  local passes = true
  if n[12] == 1 then
    passes = conforms(depth_us, depth_part)
  end
  us, part = charge(us, part, since, n[1], n[2], scale, action)
  if us > MAX then
    return at + 13, BEYOND
  end
  if n[12] == 0 then
    passes = conforms(depth_us, depth_part)
      and (wait == 0 or n[10] < 0 or conforms(n[10], n[11]))
  end
  if action == 'T' and not passes then
    return at + 13, REFUSED, begun, matters
  end
  if judge(us, part, since, 0) then
    return at + 13, PASSES, false
  end
  return at + 13, PASSES, write(us, part), us - since + 1 + interval, begun
end

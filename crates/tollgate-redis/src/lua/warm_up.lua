-- Mirrors warm_up.rs. The state is the idle time saved up, and the time of the next request: two
-- pairs of whole microseconds and parts of the next one, of which there are `scale`.

-- Numbers of more than 53 bits are lists of 24-bit limbs, the lowest first.
local LIMB = 16777216

local function wide(number)
  local limbs = {}
  repeat
    limbs[#limbs + 1] = number % LIMB
    number = math.floor(number / LIMB)
  until number == 0
  return limbs
end

local function narrow(limbs)
  local number = 0
  for i = #limbs, 1, -1 do
    number = number * LIMB + limbs[i]
  end
  return number
end

-- Returns x * y + z.
local function multiply(x, y, z)
  local product = {}
  for i = 1, #x + #y + 1 do
    product[i] = z and z[i] or 0
  end
  for i = 1, #x do
    local carry = 0
    for j = 1, #y do
      local sum = product[i + j - 1] + x[i] * y[j] + carry
      carry = math.floor(sum / LIMB)
      product[i + j - 1] = sum - carry * LIMB
    end
    local at = i + #y
    while carry > 0 do
      local sum = product[at] + carry
      carry = math.floor(sum / LIMB)
      product[at] = sum - carry * LIMB
      at = at + 1
    end
  end
  return product
end

-- Returns x - y; nil if y is the larger.
local function subtract(x, y)
  local difference, borrow = {}, 0
  for i = 1, math.max(#x, #y) do
    local digit = (x[i] or 0) - (y[i] or 0) - borrow
    borrow = digit < 0 and 1 or 0
    difference[i] = digit + borrow * LIMB
  end
  return borrow == 0 and difference or nil
end

-- Returns x / 2^62, which is two limbs and 14 bits.
local function shift_62(x)
  local shifted = {}
  for i = 3, #x do
    shifted[i - 2] = math.floor(x[i] / 16384) + ((x[i + 1] or 0) % 16384) * 1024
  end
  return shifted
end

-- Returns x * 2^62 / y for x below y: 14 bits, then twice 24.
local function share_of(x, y)
  local share = {}
  for place = 3, 1, -1 do
    x = multiply(x, { place == 3 and 16384 or 0, place == 3 and 0 or 1 })
    -- The digit is off by one at most.
    local digit = math.floor(narrow(x) / narrow(y))
    local rest = subtract(x, multiply(y, { digit % LIMB, math.floor(digit / LIMB) }))
    if not rest then
      digit = digit - 1
      rest = subtract(x, multiply(y, wide(digit)))
    end
    local less = subtract(rest, y)
    if less then
      digit, rest = digit + 1, less
    end
    share[place], x = digit, rest
  end
  return share
end

local function plus(us, part, more_us, more_part, scale)
  us, part = us + more_us, part + more_part
  if part >= scale then
    return us + 1, part - scale
  end
  return us, part
end

local function minus(us, part, less_us, less_part, scale)
  us, part = us - less_us, part - less_part
  if part < 0 then
    us, part = us - 1, part + scale
  end
  if us < 0 then
    return 0, 0
  end
  return us, part
end

local function is_later(us, part, than_us, than_part)
  return us > than_us or (us == than_us and part > than_part)
end

-- numbers: parts of a microsecond and of a nanosecond, time of the cost, idle time it uses, warm-up
-- time, the saved time at which the limit is warm, the range from warm to cold, the cost of the
-- coldest request in nanoseconds, wait
algorithms.u = function(text, now, numbers, action)
  local scale, per_nano, t_us, t_part, idle_us, idle_part, warm_up, warm_us, warm_part, cold_us,
    cold_part, coldest, wait = unpack_doubles('<ddddddddddddd', numbers)
  local stored_us, stored_part, free_us, free_part = warm_up, 0, now, 0
  local function state()
    local text = string.format('%d:%d:%d:%d', stored_us, stored_part, free_us, free_part)
    return is_later(free_us, free_part, now, 0) and text .. string.format(':%d', now) or text
  end
  local function matters()
    return free_us - now + warm_up - stored_us + 1
  end
  if text then
    local parts = {}
    for number in string.gmatch(text, '%d+') do
      parts[#parts + 1] = tonumber(number)
    end
    local written
    stored_us, stored_part, free_us, free_part, written = unpack(parts)
    if free_us > MAX then
      return BEYOND
    end
    if is_later(free_us, free_part, now, 0) and (not written or written > now) then
      -- The clock stepped back.
      if written then
        free_us, free_part = minus(free_us, free_part, written - now, 0, scale)
      else
        free_us, free_part = now, 0
      end
      return STEPPED, state(), matters()
    end
  end
  local function cap()
    if is_later(stored_us, stored_part, warm_up, 0) then
      stored_us, stored_part = warm_up, 0
    end
  end
  -- Returns the extra cost of all saved time above warm, in nanoseconds.
  local function chill()
    if not is_later(stored_us, stored_part, warm_us, warm_part) then
      return 0
    end
    local us, part = minus(stored_us, stored_part, warm_us, warm_part, scale)
    if not is_later(cold_us, cold_part, us, part) then
      return coldest
    end
    local above = multiply(wide(us), wide(scale), wide(part))
    local share = share_of(above, multiply(wide(cold_us), wide(scale), wide(cold_part)))
    return narrow(shift_62(multiply(shift_62(multiply(share, share)), wide(coldest))))
  end
  -- Saves up time that went by unused.
  local function resync()
    if is_later(now, 0, free_us, free_part) then
      local unused_us, unused_part = minus(now, 0, free_us, free_part, scale)
      stored_us, stored_part = plus(stored_us, stored_part, unused_us, unused_part, scale)
      cap()
      free_us, free_part = now, 0
    end
  end
  local function charge()
    local before = chill()
    if action == 'R' then
      stored_us, stored_part = plus(stored_us, stored_part, idle_us, idle_part, scale)
      cap()
      local back = chill() - before
      local us, part = plus(t_us, t_part, math.floor(back / 1000), back % 1000 * per_nano, scale)
      free_us, free_part = minus(free_us, free_part, us, part, scale)
      if is_later(now, 0, free_us, free_part) then
        free_us, free_part = now, 0
      end
      return
    end
    stored_us, stored_part = minus(stored_us, stored_part, idle_us, idle_part, scale)
    local more = before - chill()
    free_us, free_part = plus(free_us, free_part, t_us, t_part, scale)
    free_us, free_part =
      plus(free_us, free_part, math.floor(more / 1000), more % 1000 * per_nano, scale)
  end
  local function judge()
    local latest = now + wait
    return not is_later(free_us, free_part, latest > MAX and MAX or latest, 0)
  end
  resync()
  if action == 'T' and not judge() then
    return REFUSED
  end
  charge()
  if free_us > MAX then
    return BEYOND
  end
  if free_us == now and free_part == 0 and stored_us == warm_up then
    return PASSES, false, 0
  end
  return PASSES, state(), matters()
end

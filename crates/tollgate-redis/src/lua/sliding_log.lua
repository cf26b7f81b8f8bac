-- Mirrors sliding_log.rs, and sliding_slots.rs, which is a log with rounded times. The state is the
-- sum of all costs (24 digits), then an entry for each time, the newest last: 20 digits of time and
-- 20 of cost. Entries are removed at either end, and never all read. If the newest waits for its time,
-- 20 digits of the time of writing follow.

local HEADER, ENTRY = 24, 40

local function write(at, cost)
  return string.format('%020d%020d', at, cost)
end

local function entry(text, from)
  return tonumber(string.sub(text, from + 1, from + 20)), tonumber(string.sub(text, from + 21, from + 40))
end

-- numbers: limit, window, gap, slot, whether refusals count, cost, wait, what may be spent for the
-- check to pass (-1: it never can)
algorithms.l = function(text, now, numbers, action)
  local limit, window, gap, slot, counts, cost, patience, most = unpack_doubles('<dddddddd', numbers)
  counts = counts == 1
  local total = text and tonumber(string.sub(text, 1, HEADER)) or 0
  local first, last = HEADER, text and #text or HEADER
  local written
  if (last - HEADER) % ENTRY > 0 then
    last = last - 20
    written = tonumber(string.sub(text, last + 1))
  end
  if total > MAX or total + cost > MAX then
    return BEYOND
  end
  -- The newest entry is apart from the text, because it is the one that changes.
  local newest_at, newest_cost
  local function pop()
    newest_at, newest_cost = nil, nil
    if last > first then
      newest_at, newest_cost = entry(text, last - ENTRY)
      last = last - ENTRY
    end
  end
  pop()
  -- Moves all entries back, after the clock stepped back.
  local function rewind()
    local by = (written or newest_at) - now
    local moved = { string.format('%024d', total) }
    for from = first, last, ENTRY do
      local at, spent = entry(text, from)
      newest_at = at > by and at - by or 0
      moved[#moved + 1] = write(newest_at, spent)
    end
    if newest_at > now then
      moved[#moved + 1] = string.format('%020d', now)
    end
    return STEPPED, table.concat(moved), newest_at + window - now
  end
  if newest_at and newest_at > now and (not written or written > now) then
    return rewind()
  end
  local added = ''
  local function oldest()
    if last > first then
      return entry(text, first)
    end
    return newest_at, newest_cost
  end
  local function drop_oldest(oldest_cost)
    total = total - oldest_cost
    if last > first then
      first = first + ENTRY
    else
      newest_at, newest_cost = nil, nil
    end
  end
  local function forget()
    local oldest_at, oldest_cost = oldest()
    while oldest_at and oldest_at + window <= now do
      drop_oldest(oldest_cost)
      oldest_at, oldest_cost = oldest()
    end
  end
  -- Returns the time until `cost` more fits.
  local function fits_in()
    local excess, wait, from = total + cost - most, 0, first
    while excess > 0 and from < last do
      local oldest_at, oldest_cost = entry(text, from)
      excess, wait, from = excess - oldest_cost, oldest_at + window - now, from + ENTRY
    end
    if excess > 0 and newest_at then
      wait = newest_at + window - now
    end
    return wait
  end
  local function passes_in()
    local fits = fits_in()
    if newest_at and cost > 0 and gap > 0 and newest_at + gap - now > fits then
      return newest_at + gap - now
    end
    return fits
  end
  local function record(moment)
    if cost == 0 then
      return
    end
    moment = moment - moment % slot
    total = total + cost
    if newest_at and gap == 0 and newest_at >= moment then
      newest_cost = newest_cost + cost
    else
      if newest_at then
        -- The previous newest entry goes back to the end of the text.
        added = write(newest_at, newest_cost)
        moment = moment > newest_at and moment or newest_at
      end
      newest_at, newest_cost = moment, cost
    end
    -- Once the later entries exceed the limit alone, the oldest one decides nothing and is dropped.
    while true do
      local oldest_cost
      if first < last then
        oldest_cost = select(2, entry(text, first))
      elseif added ~= '' then
        oldest_cost = tonumber(string.sub(added, 21, 40))
      else
        return
      end
      if total - oldest_cost - newest_cost <= limit then
        return
      end
      total = total - oldest_cost
      if first < last then
        first = first + ENTRY
      else
        added = ''
      end
    end
  end
  local function take_back()
    local left = cost
    while left > 0 and newest_at do
      local part = left < newest_cost and left or newest_cost
      newest_cost, left, total = newest_cost - part, left - part, total - part
      if newest_cost == 0 then
        pop()
      end
    end
  end
  local function charge(moment)
    if action == 'R' then
      take_back()
    else
      record(moment)
    end
  end
  local function judge(wait)
    return wait <= patience and most >= 0
  end
  local function state()
    if not newest_at then
      return false, 0
    end
    local middle = first < last and string.sub(text, first + 1, last) or ''
    return string.format('%024d', total) .. middle .. added .. write(newest_at, newest_cost)
      .. (newest_at > now and string.format('%020d', now) or ''), newest_at + window - now
  end
  forget()
  if action ~= 'T' then
    charge(now)
    return PASSES, state()
  end
  local wait = passes_in()
  if now + wait > MAX then
    return BEYOND
  end
  if judge(wait) then
    charge(now + wait)
    return PASSES, state()
  end
  if counts then
    charge(now)
    return REFUSED, state()
  end
  return REFUSED
end

-- Mirrors concurrency.rs. The state is the sum of all permits in use (24 digits), then a lease for
-- each holder, the first to expire in front: 20 digits of time, 20 of cost, 20 of id. If the last one
-- expires later than the limit says, 20 digits of the time of writing follow.

local HEADER, LEASE = 24, 60

-- numbers: the permits that may be in use for the check to pass, length of a lease, cost, id
algorithms.p = function(text, now, numbers, action)
  local most, length, cost, id = unpack_doubles('<dddc20', numbers)
  local total = text and tonumber(string.sub(text, 1, HEADER)) or 0
  local leases = text and string.sub(text, HEADER + 1) or ''
  if total + cost > MAX then
    return BEYOND
  end
  local written
  if #leases % LEASE > 0 then
    written = tonumber(string.sub(leases, -20))
    leases = string.sub(leases, 1, -21)
  end
  local function last_expiry()
    return tonumber(string.sub(leases, -LEASE, -41))
  end
  local function state()
    local late = last_expiry() > now + length and string.format('%020d', now) or ''
    return string.format('%024d', total) .. leases .. late
  end
  if #leases > 0 and last_expiry() > now + length and (not written or written > now) then
    -- The clock stepped back: all leases move back.
    local by = written and written - now or last_expiry() - now - length
    leases = string.gsub(leases, '(' .. string.rep('%d', 20) .. ')(' .. string.rep('%d', 40) .. ')',
      function(expires, rest)
        return string.format('%020d', math.max(tonumber(expires) - by, 0)) .. rest
      end)
    return STEPPED, state(), last_expiry() - now
  end
  local changed = false
  local function forget_expired()
    local gone = 0
    while gone < #leases and tonumber(string.sub(leases, gone + 1, gone + 20)) <= now do
      total = total - tonumber(string.sub(leases, gone + 21, gone + 40))
      gone = gone + LEASE
    end
    if gone > 0 then
      leases, changed = string.sub(leases, gone + 1), true
    end
  end
  -- Removes the lease of `id`, and returns it.
  local function take()
    local from = 1
    while true do
      local found = string.find(leases, id, from, true)
      if not found then
        return nil
      elseif found % LEASE == 41 then
        local lease = string.sub(leases, found - 40, found + 19)
        leases = string.sub(leases, 1, found - 41) .. string.sub(leases, found + 20)
        total = total - tonumber(string.sub(lease, 21, 40))
        return lease
      end
      from = found + 1
    end
  end
  -- Inserts a lease in order of expiry. A clock that went back may make it an earlier one.
  local function insert(lease)
    local expires, place = string.sub(lease, 1, 20), #leases
    while place > 0 and string.sub(leases, place - 59, place - 40) > expires do
      place = place - LEASE
    end
    leases = string.sub(leases, 1, place) .. lease .. string.sub(leases, place + 1)
    total = total + tonumber(string.sub(lease, 21, 40))
  end
  local function acquire()
    local replaced = take()
    local allowed = total + cost <= most
    if allowed and cost > 0 then
      insert(string.format('%020d%020d', now + length, cost) .. id)
      changed = true
    elseif replaced then
      insert(replaced)
    end
    return allowed
  end
  forget_expired()
  local allowed = true
  if action == 'T' then
    allowed = acquire()
  elseif action == 'K' then
    local lease = take()
    if lease then
      local expires = math.max(tonumber(string.sub(lease, 1, 20)), now + length)
      insert(string.format('%020d', expires) .. string.sub(lease, 21))
      changed = true
    end
  elseif action ~= 'S' then
    changed = take() ~= nil or changed
  end
  if not changed then
    return allowed and PASSES or REFUSED
  end
  local full = #leases > 0 and last_expiry() - now or 0
  return allowed and PASSES or REFUSED, #leases > 0 and state(), full
end

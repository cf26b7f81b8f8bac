-- The deferred queue. A stream holds the order of the requests, and its consumer group which node
-- sends which. Everything else of a request is in a hash, which outlives its stream entry for a
-- while. Every key begins with the first key, whose tag keeps them on one server.

local DEFERRED_GROUP = 'tollgate'
-- The idle time set on requests that any node may take over.
local DEFERRED_LEFT = 86400000
-- The time after which the requests of each line are counted anew, if a line has used its share.
local DEFERRED_RECOUNT = 600000

local function deferred_item(base, id)
  return base .. ':item:' .. id
end

local function deferred_fresh(base, line, by)
  if redis.call('HINCRBY', base .. ':lines', line, by) <= 0 then
    redis.call('HDEL', base .. ':lines', line)
  end
end

-- Counts a request in (1) or out (-1): in total and for its line, which may have only a share.
local function deferred_count(base, line, by, bytes)
  redis.call('HINCRBY', base .. ':kept', 'count', by)
  redis.call('HINCRBY', base .. ':kept', 'bytes', by * bytes)
  if redis.call('HINCRBY', base .. ':line_counts', line, by) > 0 then
    redis.call('HINCRBY', base .. ':line_bytes', line, by * bytes)
  else
    redis.call('HDEL', base .. ':line_counts', line)
    redis.call('HDEL', base .. ':line_bytes', line)
  end
end

-- Counts the requests of every line anew, because nodes of older versions do not count them.
local function deferred_recount(base, now)
  local counts, sizes = {}, {}
  local function note(id)
    local known = redis.call('HMGET', deferred_item(base, id), 'line', 'bytes')
    if known[1] and known[2] then
      counts[known[1]] = (counts[known[1]] or 0) + 1
      sizes[known[1]] = (sizes[known[1]] or 0) + tonumber(known[2])
    end
  end
  for _, entry in ipairs(redis.call('XRANGE', base .. ':stream', '-', '+')) do note(entry[2][2]) end
  for _, id in ipairs(redis.call('ZRANGE', base .. ':failed', 0, -1)) do note(id) end
  redis.call('DEL', base .. ':line_counts', base .. ':line_bytes')
  for line, count in pairs(counts) do
    redis.call('HSET', base .. ':line_counts', line, count)
    redis.call('HSET', base .. ':line_bytes', line, sizes[line])
  end
  redis.call('HSET', base .. ':kept', 'recounted', now)
end

-- Says why a line may not have another request; false if it may.
local function deferred_over_share(base, line, bytes, total, total_bytes, most, most_bytes, percent)
  local own = tonumber(redis.call('HGET', base .. ':line_counts', line) or 0)
  if own == 0 then return false end
  local own_bytes = tonumber(redis.call('HGET', base .. ':line_bytes', line) or 0)
  local function share(capacity, used, owned)
    return math.floor(math.max(capacity - math.max(used - owned, 0), 0) * percent / 100)
  end
  local count = math.max(share(most, total, own), 1)
  local size = share(most_bytes, total_bytes, own_bytes)
  if own + 1 <= count and own_bytes + bytes <= size then return false end
  return string.format('the requests of its key take up their share of the queue, %.0f requests and %.0f bytes', count, size)
end

local function deferred_enter(base, id, line)
  local entry = redis.call('XADD', base .. ':stream', '*', 'id', id)
  redis.call('HSET', deferred_item(base, id), 'entry', entry)
  deferred_fresh(base, line, 1)
  return entry
end

-- Puts a request that was being sent back into the queue.
local function deferred_again(base, id, line, failures)
  redis.call('HSET', deferred_item(base, id), 'state', 'queued')
  redis.call('SREM', base .. ':sending', id)
  if failures == '0' then deferred_fresh(base, line, 1) end
end

-- Collects what a node must know of the entries that it is to send.
local function deferred_waiting(base, entries, taken, in_flight)
  local stream = base .. ':stream'
  for _, entry in ipairs(entries) do
    local id = entry[2] and entry[2][2]
    local known = id and redis.call('HMGET', deferred_item(base, id), 'line', 'added', 'due', 'failures', 'state')
    if not known or not known[1] then
      redis.call('XACK', stream, DEFERRED_GROUP, entry[1])
      redis.call('XDEL', stream, entry[1])
    elseif not in_flight[id] then
      if known[5] == 'sending' then deferred_again(base, id, known[1], known[4]) end
      taken[#taken + 1] = { entry[1], id, known[1], known[2], known[3], known[4] }
    end
  end
  return taken
end

-- Returns the entries that a node is to send.
local function deferred_own(base, node)
  local pending = redis.pcall('XPENDING', base .. ':stream', DEFERRED_GROUP, '-', '+', '100000', node)
  local entries = {}
  if not pending.err then
    for i = 1, #pending do entries[i] = pending[i][1] end
  end
  return entries
end

local function deferred_claim(base, node, entries, idle)
  for first = 1, #entries, 500 do
    local last = math.min(first + 499, #entries)
    local command = { 'XCLAIM', base .. ':stream', DEFERRED_GROUP, node, '0' }
    for i = first, last do command[#command + 1] = entries[i] end
    command[#command + 1] = 'IDLE'
    command[#command + 1] = idle
    command[#command + 1] = 'JUSTID'
    redis.call(unpack(command))
  end
end

local DEFERRED_FIELDS = { 'line', 'head', 'bytes', 'state', 'attempts', 'added', 'changed', 'due', 'why', 'status', 'kind', 'answer' }

local function deferred_record(base, id)
  local record = redis.call('HMGET', deferred_item(base, id), unpack(DEFERRED_FIELDS))
  if not record[1] then return false end
  for i = 1, #DEFERRED_FIELDS do record[i] = record[i] or '' end
  table.insert(record, 1, id)
  return record
end

-- Ends a request: done, failed or cancelled.
local function deferred_end(base, id, state, why, status, kind, answer, now, keep)
  local item = deferred_item(base, id)
  local known = redis.call('HMGET', item, 'state', 'failures', 'line', 'entry', 'bytes')
  -- A repeated call changes nothing.
  if not known[1] or known[1] == 'done' or known[1] == 'cancelled' then return 0 end
  if known[1] == 'queued' and known[2] == '0' then deferred_fresh(base, known[3], -1) end
  redis.call('SREM', base .. ':sending', id)
  redis.call('ZREM', base .. ':failed', id)
  if known[4] then
    redis.pcall('XACK', base .. ':stream', DEFERRED_GROUP, known[4])
    redis.call('XDEL', base .. ':stream', known[4])
  end
  redis.call('HSET', item, 'state', state, 'status', status, 'kind', kind, 'answer', answer, 'changed', now)
  if why ~= '' then redis.call('HSET', item, 'why', why) end
  redis.call('ZADD', base .. ':' .. state, now, id)
  if state ~= 'failed' then
    redis.call('HDEL', item, 'body')
    redis.call('PEXPIRE', item, keep)
    deferred_count(base, known[3], -1, tonumber(known[5]))
  end
  return 1
end

local deferred_calls = {}

-- id, line, head, body, now, maximum number of requests, maximum number of bytes, share of a line in
-- percent of what other lines leave
function deferred_calls.add(base, id, line, head, body, now, most, most_bytes, percent)
  -- The call is repeated because its reply was lost, or it arrives after a withdrawal.
  local known = redis.call('HMGET', deferred_item(base, id), 'state', 'entry')
  if known[1] then return known[2] and { 'kept', known[2] } or { 'full', 'it was withdrawn' } end
  local stored = redis.call('HMGET', base .. ':kept', 'count', 'bytes', 'recounted')
  local total, total_bytes, bytes = tonumber(stored[1] or 0), tonumber(stored[2] or 0), #head + #body
  most, most_bytes, percent = tonumber(most), tonumber(most_bytes), tonumber(percent)
  if total >= most then
    return { 'full', string.format('%.0f requests are deferred already', total) }
  end
  if total_bytes + bytes > most_bytes then
    return { 'full', 'the deferred requests take up all the space allowed' }
  end
  if not stored[3] then deferred_recount(base, now) end
  local full = deferred_over_share(base, line, bytes, total, total_bytes, most, most_bytes, percent)
  if full and stored[3] and tonumber(now) - tonumber(stored[3]) >= DEFERRED_RECOUNT then
    deferred_recount(base, now)
    full = deferred_over_share(base, line, bytes, total, total_bytes, most, most_bytes, percent)
  end
  if full then return { 'full', full } end
  redis.call('HSET', deferred_item(base, id), 'line', line, 'head', head, 'body', body, 'bytes', bytes,
    'state', 'queued', 'attempts', 0, 'failures', 0, 'due', 0, 'added', now, 'changed', now)
  deferred_count(base, line, 1, bytes)
  return { 'kept', deferred_enter(base, id, line) }
end

-- node, maximum number, idle time after which the requests of another node are taken over
function deferred_calls.take(base, node, most, silent)
  local stream, taken = base .. ':stream', {}
  redis.pcall('XGROUP', 'CREATE', stream, DEFERRED_GROUP, '0', 'MKSTREAM')
  local silent_ones = redis.call('XAUTOCLAIM', stream, DEFERRED_GROUP, node, silent, '0-0', 'COUNT', most)
  deferred_waiting(base, silent_ones[2], taken, {})
  local new = redis.call('XREADGROUP', 'GROUP', DEFERRED_GROUP, node, 'COUNT', most, 'STREAMS', stream, '>')
  if new and new[1] then deferred_waiting(base, new[1][2], taken, {}) end
  return taken
end

-- node, ids of the requests that it is sending. Renews the claims of the node, and returns
-- everything else that it is to send, including requests whose reply it never received.
function deferred_calls.beat(base, node, ...)
  local stream, in_flight = base .. ':stream', {}
  for _, id in ipairs({ ... }) do in_flight[id] = true end
  deferred_claim(base, node, deferred_own(base, node), 0)
  local own = redis.pcall('XREADGROUP', 'GROUP', DEFERRED_GROUP, node, 'COUNT', '100000', 'STREAMS', stream, '0')
  return deferred_waiting(base, own and not own.err and own[1] and own[1][2] or {}, {}, in_flight)
end

-- node. Releases everything that the node did not send.
function deferred_calls.leave(base, node)
  deferred_claim(base, node, deferred_own(base, node), DEFERRED_LEFT)
  return 0
end

function deferred_calls.head(base, id)
  local known = redis.call('HMGET', deferred_item(base, id), 'state', 'head')
  return known[1] == 'queued' and known[2]
end

-- id, now, node
function deferred_calls.begin(base, id, now, node)
  local item = deferred_item(base, id)
  local known = redis.call('HMGET', item, 'state', 'failures', 'line', 'entry', 'head', 'body')
  if known[1] ~= 'queued' then return false end
  local own = redis.call('XPENDING', base .. ':stream', DEFERRED_GROUP, known[4], known[4], 1, node)
  if #own == 0 then return false end
  if known[2] == '0' then deferred_fresh(base, known[3], -1) end
  redis.call('HSET', item, 'state', 'sending', 'changed', now)
  redis.call('SADD', base .. ':sending', id)
  return { redis.call('HINCRBY', item, 'attempts', 1), known[5], known[6] }
end

-- id, time of the next attempt, reason, whether nothing was sent (1), now
function deferred_calls.back(base, id, due, why, unsent, now)
  local item = deferred_item(base, id)
  if redis.call('HGET', item, 'state') ~= 'sending' then return 0 end
  redis.call('HSET', item, 'state', 'queued', 'due', due, 'why', why, 'changed', now)
  if unsent == '1' then redis.call('HINCRBY', item, 'attempts', -1) end
  redis.call('HINCRBY', item, 'failures', 1)
  redis.call('SREM', base .. ':sending', id)
  return 1
end

deferred_calls['end'] = deferred_end

-- id, now, for how long it is remembered
function deferred_calls.cancel(base, id, now, keep)
  local state = redis.call('HGET', deferred_item(base, id), 'state')
  if state ~= 'queued' and state ~= 'failed' then return 0 end
  return deferred_end(base, id, 'cancelled', '', '', '', '', now, keep)
end

-- id, now, for how long it is remembered. The client was told that the request is not stored, so it
-- is cancelled, and refused if it still arrives. Returns 1 unless it was sent.
function deferred_calls.withdraw(base, id, now, keep)
  local item = deferred_item(base, id)
  local known = redis.call('HMGET', item, 'state', 'attempts')
  if not known[1] then
    redis.call('HSET', item, 'state', 'cancelled')
    redis.call('PEXPIRE', item, keep)
  elseif known[1] == 'queued' and known[2] == '0' then
    deferred_end(base, id, 'cancelled', 'its client was told that it was not stored', '', '', '', now, keep)
  elseif known[1] ~= 'cancelled' then
    return 0
  end
  return 1
end

-- an id or an empty text, the beginning of the line, now
function deferred_calls.revive(base, only, begins, now)
  local count = 0
  for _, id in ipairs(only ~= '' and { only } or redis.call('ZRANGE', base .. ':failed', 0, -1)) do
    local item = deferred_item(base, id)
    local known = redis.call('HMGET', item, 'state', 'line')
    if known[1] == 'failed' and (begins == '' or string.find(known[2], begins, 1, true)) then
      redis.call('ZREM', base .. ':failed', id)
      redis.call('HSET', item, 'state', 'queued', 'attempts', 0, 'failures', 0, 'due', 0, 'added', now,
        'changed', now, 'status', '', 'kind', '', 'answer', '')
      deferred_enter(base, id, known[2])
      count = count + 1
    end
  end
  return count
end

function deferred_calls.entry(base, id)
  return deferred_record(base, id)
end

-- a state or an empty text, a part of the line, maximum number
function deferred_calls.list(base, state, contains, most)
  local found = {}
  local function note(id)
    if #found < tonumber(most) then
      local record = deferred_record(base, id)
      local fits = record and (state == '' or record[5] == state)
      if fits and (contains == '' or string.find(record[2], contains, 1, true)) then
        found[#found + 1] = record
      end
    end
  end
  if state == '' or state == 'queued' or state == 'sending' then
    for _, entry in ipairs(redis.call('XREVRANGE', base .. ':stream', '+', '-', 'COUNT', 1000)) do
      note(entry[2][2])
    end
  end
  for _, over in ipairs({ 'failed', 'done', 'cancelled' }) do
    if state == '' or state == over then
      for _, id in ipairs(redis.call('ZREVRANGE', base .. ':' .. over, 0, 999)) do note(id) end
    end
  end
  return found
end

function deferred_calls.summary(base)
  local first = redis.call('XRANGE', base .. ':stream', '-', '+', 'COUNT', 1)[1]
  local oldest = first and redis.call('HGET', deferred_item(base, first[2][2]), 'added')
  local sending = redis.call('SCARD', base .. ':sending')
  return { redis.call('XLEN', base .. ':stream') - sending, sending, redis.call('ZCARD', base .. ':done'),
    redis.call('ZCARD', base .. ':failed'), redis.call('ZCARD', base .. ':cancelled'), oldest or '' }
end

function deferred_calls.lines(base)
  return redis.call('HGETALL', base .. ':lines')
end

-- Forgets requests that ended before a time, and removes dead letters that failed before another one,
-- at most so many at a time. Returns the number of dead letters.
function deferred_calls.sweep(base, before, dead_before, most)
  for _, over in ipairs({ ':done', ':cancelled' }) do
    redis.call('ZREMRANGEBYSCORE', base .. over, '-inf', before)
  end
  local dead = redis.call('ZRANGE', base .. ':failed', '-inf', dead_before, 'BYSCORE', 'LIMIT', 0, most)
  for _, id in ipairs(dead) do
    local item = deferred_item(base, id)
    local known = redis.call('HMGET', item, 'line', 'bytes')
    redis.call('ZREM', base .. ':failed', id)
    if known[1] then
      redis.call('DEL', item)
      deferred_count(base, known[1], -1, tonumber(known[2]))
    end
  end
  return #dead
end

local function deferred(keys, args)
  return deferred_calls[args[1]](keys[1], unpack(args, 2))
end

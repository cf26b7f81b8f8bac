-- Deferred requests. A stream says who is next, and a group of consumers which node sends what; all
-- else of a request is in a hash of its own, which outlives its entry in the stream for a while.
-- Every key begins with the first one, whose tag keeps them on one server.

local DEFERRED_GROUP = 'tollgate'
-- So idle that anybody may take it over.
local DEFERRED_LEFT = 86400000

local function deferred_item(base, id)
  return base .. ':item:' .. id
end

local function deferred_fresh(base, line, by)
  if redis.call('HINCRBY', base .. ':lines', line, by) <= 0 then
    redis.call('HDEL', base .. ':lines', line)
  end
end

local function deferred_enter(base, id, line)
  local entry = redis.call('XADD', base .. ':stream', '*', 'id', id)
  redis.call('HSET', deferred_item(base, id), 'entry', entry)
  deferred_fresh(base, line, 1)
  return entry
end

-- A request waits that was on its way.
local function deferred_again(base, id, line, failures)
  redis.call('HSET', deferred_item(base, id), 'state', 'queued')
  redis.call('SREM', base .. ':sending', id)
  if failures == '0' then deferred_fresh(base, line, 1) end
end

-- What is to be known of entries that a node is to send.
local function deferred_waiting(base, entries, taken, on_the_way)
  local stream = base .. ':stream'
  for _, entry in ipairs(entries) do
    local id = entry[2] and entry[2][2]
    local known = id and redis.call('HMGET', deferred_item(base, id), 'line', 'added', 'due', 'failures', 'state')
    if not known or not known[1] then
      redis.call('XACK', stream, DEFERRED_GROUP, entry[1])
      redis.call('XDEL', stream, entry[1])
    elseif not on_the_way[id] then
      if known[5] == 'sending' then deferred_again(base, id, known[1], known[4]) end
      taken[#taken + 1] = { entry[1], id, known[1], known[2], known[3], known[4] }
    end
  end
  return taken
end

-- The entries that a node has to send.
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
    local words = { 'XCLAIM', base .. ':stream', DEFERRED_GROUP, node, '0' }
    for i = first, last do words[#words + 1] = entries[i] end
    words[#words + 1] = 'IDLE'
    words[#words + 1] = idle
    words[#words + 1] = 'JUSTID'
    redis.call(unpack(words))
  end
end

local DEFERRED_TOLD = { 'line', 'head', 'bytes', 'state', 'attempts', 'added', 'changed', 'due', 'why', 'status', 'kind', 'answer' }

local function deferred_told(base, id)
  local told = redis.call('HMGET', deferred_item(base, id), unpack(DEFERRED_TOLD))
  if not told[1] then return false end
  for i = 1, #DEFERRED_TOLD do told[i] = told[i] or '' end
  table.insert(told, 1, id)
  return told
end

-- A request ends: done, failed or cancelled.
local function deferred_end(base, id, state, why, status, kind, answer, now, keep)
  local item = deferred_item(base, id)
  local known = redis.call('HMGET', item, 'state', 'failures', 'line', 'entry', 'bytes')
  -- Told twice, it ends once.
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
    redis.call('HINCRBY', base .. ':kept', 'count', -1)
    redis.call('HINCRBY', base .. ':kept', 'bytes', '-' .. known[5])
  end
  return 1
end

local deferred_calls = {}

-- id, line, head, body, now, how many there may be, how many bytes
function deferred_calls.add(base, id, line, head, body, now, most, most_bytes)
  -- Asked again, because nobody heard the answer; or too late.
  local known = redis.call('HMGET', deferred_item(base, id), 'state', 'entry')
  if known[1] then return known[2] and { 'kept', known[2] } or { 'full', 'it was taken back' } end
  local kept = redis.call('HMGET', base .. ':kept', 'count', 'bytes')
  local bytes = #head + #body
  if tonumber(kept[1] or 0) >= tonumber(most) then
    return { 'full', kept[1] .. ' requests are deferred already' }
  end
  if tonumber(kept[2] or 0) + bytes > tonumber(most_bytes) then
    return { 'full', 'what is deferred takes all the room there is' }
  end
  redis.call('HSET', deferred_item(base, id), 'line', line, 'head', head, 'body', body, 'bytes', bytes,
    'state', 'queued', 'attempts', 0, 'failures', 0, 'due', 0, 'added', now, 'changed', now)
  redis.call('HINCRBY', base .. ':kept', 'count', 1)
  redis.call('HINCRBY', base .. ':kept', 'bytes', bytes)
  return { 'kept', deferred_enter(base, id, line) }
end

-- node, how many, for how long another node was silent whose requests are taken over
function deferred_calls.take(base, node, most, silent)
  local stream, taken = base .. ':stream', {}
  redis.pcall('XGROUP', 'CREATE', stream, DEFERRED_GROUP, '0', 'MKSTREAM')
  local silent_ones = redis.call('XAUTOCLAIM', stream, DEFERRED_GROUP, node, silent, '0-0', 'COUNT', most)
  deferred_waiting(base, silent_ones[2], taken, {})
  local new = redis.call('XREADGROUP', 'GROUP', DEFERRED_GROUP, node, 'COUNT', most, 'STREAMS', stream, '>')
  if new and new[1] then deferred_waiting(base, new[1][2], taken, {}) end
  return taken
end

-- node, the ids of what it is sending: says that it is there, and hears of all else that it is to
-- send, also if it never heard that it took it, or began to send it
function deferred_calls.beat(base, node, ...)
  local stream, on_the_way = base .. ':stream', {}
  for _, id in ipairs({ ... }) do on_the_way[id] = true end
  deferred_claim(base, node, deferred_own(base, node), 0)
  local own = redis.pcall('XREADGROUP', 'GROUP', DEFERRED_GROUP, node, 'COUNT', '100000', 'STREAMS', stream, '0')
  return deferred_waiting(base, own and not own.err and own[1] and own[1][2] or {}, {}, on_the_way)
end

-- node: others may have what it did not send
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

-- id, when next, why, whether it was not sent at all (1), now
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

-- id, now, how long it is remembered
function deferred_calls.cancel(base, id, now, keep)
  local state = redis.call('HGET', deferred_item(base, id), 'state')
  if state ~= 'queued' and state ~= 'failed' then return 0 end
  return deferred_end(base, id, 'cancelled', '', '', '', '', now, keep)
end

-- id, now, how long that is remembered: whoever sent it was told that it was not kept. What is still
-- on its way here will not be kept either. Whether it was not sent.
function deferred_calls.withdraw(base, id, now, keep)
  local item = deferred_item(base, id)
  local known = redis.call('HMGET', item, 'state', 'attempts')
  if not known[1] then
    redis.call('HSET', item, 'state', 'cancelled')
    redis.call('PEXPIRE', item, keep)
  elseif known[1] == 'queued' and known[2] == '0' then
    deferred_end(base, id, 'cancelled', 'its client was told that it was not kept', '', '', '', now, keep)
  elseif known[1] ~= 'cancelled' then
    return 0
  end
  return 1
end

-- an id or nothing, what the line must begin with, now
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
  return deferred_told(base, id)
end

-- a state or nothing, what the line must contain, how many
function deferred_calls.list(base, state, contains, most)
  local found = {}
  local function note(id)
    if #found < tonumber(most) then
      local told = deferred_told(base, id)
      local fits = told and (state == '' or told[5] == state)
      if fits and (contains == '' or string.find(told[2], contains, 1, true)) then
        found[#found + 1] = told
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

-- what ended before then is forgotten
function deferred_calls.sweep(base, before)
  for _, over in ipairs({ ':done', ':cancelled' }) do
    redis.call('ZREMRANGEBYSCORE', base .. over, '-inf', before)
  end
  return 0
end

local function deferred(keys, args)
  return deferred_calls[args[1]](keys[1], unpack(args, 2))
end

-- What all algorithms share. Times are microseconds since the Unix epoch. Numbers are doubles:
-- whole numbers are exact below 2^53. A call that might exceed that returns BEYOND, and the caller,
-- which has wider numbers, computes and writes the states itself.
local PASSES, REFUSED, LATE, BEYOND, STALE = 1, 0, 2, 3, 4
-- The state was written before the clock stepped back: it is moved back and decided on again.
local STEPPED = 5
local MAX = 9007199254740991

-- kind -> function(state, now, numbers, action). It returns one of the codes above; the new state
-- (nil: unchanged) with how long it matters; and the state to write if another check of the request
-- refuses it. `numbers` is a packed list of doubles, as `struct` reads them. With STEPPED, the second
-- and third result are the state as it should be now. Mirrors rewind.rs: a state that reaches further
-- ahead of now than the limit takes a key without debt also has the time of writing, so that a debt is
-- not taken for a step of the clock.
local algorithms = {}

-- Set when a function runs: `struct` is not available while a library is loaded.
local unpack_doubles, pack_doubles

-- Returns floor(a * b / c), exact for b <= c and numbers below 2^51.
local function muldiv(a, b, c)
  local product = a * b
  if product <= MAX then
    return math.floor(product / c)
  end
  -- The quotient is off by a few at most. The exact remainder, computed in halves of 26 bits,
  -- corrects it.
  local quotient = math.floor(a * (b / c))
  local HALF = 67108864
  local function split(x, y)
    local x1, y1 = math.floor(x / HALF), math.floor(y / HALF)
    local x0, y0 = x - x1 * HALF, y - y1 * HALF
    local middle = x1 * y0 + x0 * y1
    local middle1 = math.floor(middle / HALF)
    return x1 * y1 + middle1, (middle - middle1 * HALF) * HALF + x0 * y0
  end
  local ab1, ab0 = split(a, b)
  local qc1, qc0 = split(quotient, c)
  local left = (ab1 - qc1) * (HALF * HALF) + (ab0 - qc0)
  return quotient + math.floor(left / c)
end

-- What every algorithm shares. Times are microseconds since the Unix epoch. Numbers are doubles:
-- whole numbers are exact below 2^53, and whatever might reach that is handed back to the caller
-- (BEYOND), who has wider numbers and writes what became of the state itself.
local PASSES, REFUSED, LATE, BEYOND, STALE = 1, 0, 2, 3, 4
local MAX = 9007199254740991

-- kind -> function(state, now, numbers, action): one of the codes above, what is to be written (none:
-- nothing) with how long it matters, and what is to be written although it passes if another check of
-- the request does not. Numbers are doubles one after the other, as `struct` reads them.
local algorithms = {}

-- Known once a function runs: a library is loaded without them.
local unpack_doubles, pack_doubles

-- floor(a * b / c), exact for b <= c and numbers below 2^51.
local function muldiv(a, b, c)
  local product = a * b
  if product <= MAX then
    return math.floor(product / c)
  end
  -- Off by a few at most; the true remainder, in halves of 26 bits, says by how many.
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

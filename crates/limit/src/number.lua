-- The arithmetic of number.rs, for the scripts of the strategies: the same doubles in the same order.
local WHOLE_MAX = 9007199254740991

local function whole(n)
  if not (n > 0) then return 0 end
  if n > WHOLE_MAX then return WHOLE_MAX end
  return n
end

local function floor(n) return whole(math.floor(n)) end

local function ceil(n) return whole(math.ceil(n)) end

-- Of a time or a TTL: at least a millisecond.
local function ceil_1(n) return math.max(1, ceil(n)) end

-- The only way in which a number becomes text: 17 digits keep a double exactly.
local function text(n) return string.format('%.17g', n) end


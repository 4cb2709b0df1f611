-- token_bucket.rs. Arguments: cost, capacity, refill_per_ms, fill_ms.
local cost, capacity, rate, fill_ms = tonumber(a[1]), tonumber(a[2]), tonumber(a[3]), tonumber(a[4])
local tokens, last = capacity, now
if state then
  local held, at = string.match(state, '^%[([^,%[%]]+),(%d+)%]$')
  tokens, last = held and tonumber(held), at and whole(tonumber(at))
  if not tokens then return end
  if now > last then tokens = tokens + (now - last) * rate end
  if not (tokens < capacity) then tokens = capacity end
  if last < now then last = now end
end
local function full_at(held) return whole(now + ceil((capacity - held) / rate)) end
if tokens >= cost then
  local left = tokens - cost
  return '[' .. text(left) .. ',' .. text(last) .. ']', fill_ms, 1, floor(left), full_at(left), 0
end
return false, 0, 0, floor(tokens), full_at(tokens), ceil_1((cost - tokens) / rate)

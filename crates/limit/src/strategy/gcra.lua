-- gcra.rs. Arguments: cost, interval_ms, burst_ms.
local cost, interval, burst = tonumber(a[1]), tonumber(a[2]), tonumber(a[3])
local arrival = now
if state then
  arrival = tonumber(state)
  if not arrival then return end
  if arrival < now then arrival = now end
end
local new = arrival + interval * cost
local allow_at = new - burst
local function left(ahead) return floor((burst - ahead) / interval) end
if now < allow_at then
  return false, 0, 0, left(arrival - now), ceil(arrival), ceil_1(allow_at - now)
end
return text(new), ceil_1(new - now), 1, left(new - now), ceil(new), 0

-- window.rs: counting in the window of `window(now)`. Arguments: cost, limit.
local cost, limit = tonumber(a[1]), tonumber(a[2])
local start, stop = window(now)
local count = 0
start = whole(start)
if state then
  local stored, counted = string.match(state, '^%[(%d+),(%d+)%]$')
  stored, counted = stored and tonumber(stored), counted and tonumber(counted)
  if not stored then return end
  if stored == start then
    count = counted
  elseif whole(stored) > now then
    -- The clock has jumped back: the window ahead goes on.
    local _, later = window(whole(stored))
    start, stop, count = stored, later, counted
  end
end
local after, reset_at, rest = count + cost, whole(stop), whole(stop - now)
if after <= limit then
  return '[' .. text(start) .. ',' .. text(after) .. ']', math.max(1, rest), 1, limit - after, reset_at, 0
end
return false, 0, 0, math.max(0, limit - count), reset_at, math.max(1, rest)

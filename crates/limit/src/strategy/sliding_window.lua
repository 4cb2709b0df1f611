-- sliding_window.rs. Arguments: cost, limit, window_ms, buckets, bucket_ms.
local cost, limit, window_ms = tonumber(a[1]), tonumber(a[2]), tonumber(a[3])
local buckets, width = tonumber(a[4]), tonumber(a[5])
local slots = buckets + 1
local counts, newest
if state then
  local tick, ms, list = string.match(state, '^{"tick":(%d+),"ms":([^,]+),"counts":%[([%d,]*)%]}$')
  if not tick then return end
  counts = {}
  for count in string.gmatch(list, '%d+') do counts[#counts + 1] = tonumber(count) end
  newest = tonumber(tick)
  -- A ring with other buckets belongs to an earlier policy of this name and counts as empty.
  if #counts ~= slots or tonumber(ms) ~= width then counts = nil end
end
-- Exact for every whole number, which the operator % is not.
local function place(tick) return math.fmod(tick, slots) + 1 end
local function count_of(tick)
  if not counts or tick > newest or newest - tick >= slots then return 0 end
  return counts[place(tick)]
end
local tick = floor(now / width)
if counts and newest > tick then tick = newest end
local tick_ms = tick * width
local elapsed = math.max(0, now - tick_ms)
local weight = math.min(1, math.max(0, (width - elapsed) / width))
-- In two halves, so that a sum over 2^53 is rounded one time only, as a sum of integers is.
local high, low, half = 0, 0, 67108864
for i = math.max(0, tick + 1 - buckets), tick do
  local count = count_of(i)
  local part = math.floor(count / half)
  high, low = high + part, low + (count - part * half)
end
local full = high * half + low
local oldest = tick < buckets and 0 or count_of(tick - buckets)
local estimate = full + oldest * weight
local projected = estimate + cost
local next_ms = (tick + 1) * width
local reset_at = ceil(next_ms + window_ms)
if projected <= limit then
  if not counts then
    counts, newest = {}, tick
    for i = 1, slots do counts[i] = 0 end
  end
  for i = tick + 1 - math.min(tick - newest, slots), tick do counts[place(i)] = 0 end
  counts[place(tick)] = counts[place(tick)] + cost
  for i = 1, slots do counts[i] = text(counts[i]) end
  local ring = '{"tick":' .. text(tick) .. ',"ms":' .. text(width)
  ring = ring .. ',"counts":[' .. table.concat(counts, ',') .. ']}'
  local ttl = ceil_1(window_ms + width + math.max(0, tick_ms - now))
  return ring, ttl, 1, floor(limit - projected), reset_at, 0
end
local over, retry = projected - limit, nil
if oldest > 0 and over <= oldest * weight then
  retry = ceil_1(over * width / oldest)
else
  retry = ceil_1(next_ms - now)
end
return false, 0, 0, floor(limit - estimate), reset_at, retry

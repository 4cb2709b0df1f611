-- leaky_bucket.rs. Arguments: cost, interval_ms, max_queue_ms.
local cost, interval, max_queue = tonumber(a[1]), tonumber(a[2]), tonumber(a[3])
local departure = now
if state then
  departure = tonumber(state)
  if not departure then return end
  if departure < now then departure = now end
end
local delay = departure - now
local function free(queued)
  if queued > max_queue then return 0 end
  return whole(floor((max_queue - queued) / interval) + 1)
end
if delay > max_queue and cost > 0 then
  return false, 0, 0, 0, ceil(departure), ceil_1(delay - max_queue)
end
local following = departure + interval * cost
return text(following), ceil_1(following - now), 1, free(following - now), ceil(following), 0, ceil(delay) + 1

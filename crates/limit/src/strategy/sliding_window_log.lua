-- sliding_window_log.rs. Arguments: cost, limit, window_ms.
local cost, limit, window_ms = tonumber(a[1]), tonumber(a[2]), tonumber(a[3])
local entries = {}
if state then
  if not string.find(state, '^%[[%[%]%d,]*%]$') then return end
  for at, units in string.gmatch(state, '%[(%d+),(%d+)%]') do
    entries[#entries + 1] = {whole(tonumber(at)), tonumber(units), '[' .. at .. ',' .. units .. ']'}
  end
end
local clock = now
if #entries > 0 and entries[#entries][1] > now then now = entries[#entries][1] end
local live, used = {}, 0
for _, entry in ipairs(entries) do
  if not (entry[1] <= now - window_ms) then
    live[#live + 1] = entry
    used = used + entry[2]
  end
end
local after = used + cost
local oldest = #live > 0 and live[1][1] or now
local reset_at = ceil(oldest + window_ms)
if after <= limit then
  local last = live[#live]
  if last and last[1] == floor(now) then
    last[3] = '[' .. text(last[1]) .. ',' .. text(last[2] + cost) .. ']'
  elseif cost > 0 then
    live[#live + 1] = {0, 0, '[' .. text(floor(now)) .. ',' .. text(cost) .. ']'}
  end
  for i, entry in ipairs(live) do live[i] = entry[3] end
  local log = '[' .. table.concat(live, ',') .. ']'
  return log, ceil_1(now + window_ms - clock), 1, limit - after, reset_at, 0
end
local retry = window_ms
if used > 0 then
  local k, seen = math.min(used, math.max(1, after - limit)), 0
  for _, entry in ipairs(live) do
    seen = seen + entry[2]
    if seen >= k then
      retry = entry[1] + window_ms - clock
      break
    end
  end
end
return false, 0, 0, math.max(0, limit - used), reset_at, ceil_1(retry)

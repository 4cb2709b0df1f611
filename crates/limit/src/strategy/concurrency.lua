-- concurrency.rs. Arguments: cost, limit, lease_ms, lease_id. An id has 64 bits, so it stays text.
local cost, limit, lease_ms, lease = tonumber(a[1]), tonumber(a[2]), tonumber(a[3]), a[4]
local held, renews, first, last = {}, false, nil, nil
local function hold(id, expires)
  held[#held + 1] = '[' .. id .. ',' .. text(expires) .. ']'
  if not first or expires < first then first = expires end
  if not last or expires > last then last = expires end
end
if state then
  if not string.find(state, '^%[[%[%]%d,]*%]$') then return end
  for id, at in string.gmatch(state, '%[(%d+),(%d+)%]') do
    local expires = tonumber(at)
    if now < expires then
      if cost > 0 and id == lease then renews = true else hold(id, expires) end
    end
  end
end
if cost > 0 and not renews and #held >= limit then
  return false, 0, 0, math.max(0, limit - #held), whole(last or now), math.max(1, whole((first or now) - now))
end
if cost > 0 then hold(lease, now + lease_ms) end
local leases = '[' .. table.concat(held, ',') .. ']'
return leases, math.max(1, (last or now) - now), 1, math.max(0, limit - #held), whole(last or now), 0, 0, cost > 0 and 1 or 0

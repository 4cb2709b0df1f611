-- quota.rs. Arguments: cost, limit, cadence, offset_ms, then for a week its first day, for a fixed period period_ms and anchor.
local DAY_MS = 86400000
local cadence, offset = a[3], tonumber(a[4])

local function first_of(year, month)
  local before = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334}
  local function leap_years_before(y)
    return math.floor((y - 1) / 4) - math.floor((y - 1) / 100) + math.floor((y - 1) / 400)
  end
  local leap = year % 4 == 0 and (year % 100 ~= 0 or year % 400 == 0)
  local day = 365 * (year - 1970) + leap_years_before(year) - leap_years_before(1970) + before[month]
  if leap and month > 2 then day = day + 1 end
  return day
end

local function month_of(day)
  local year, month = 1970 + math.floor(day / 366), 1
  while first_of(year + 1, 1) <= day do year = year + 1 end
  while month < 12 and first_of(year, month + 1) <= day do month = month + 1 end
  if month == 12 then return first_of(year, 12), first_of(year + 1, 1) end
  return first_of(year, month), first_of(year, month + 1)
end

local function window(at)
  if cadence == 'fixed' then
    local period, anchor = tonumber(a[5]), tonumber(a[6])
    local start = anchor + math.floor((at - anchor) / period) * period
    return start, start + period
  end
  local day = math.floor((at + offset) / DAY_MS)
  local first, following = day, day + 1
  if cadence == 'month' then
    first, following = month_of(day)
  elseif cadence == 'week' then
    -- The first of January 1970 was a Thursday, day 4.
    first = day - (day + 4 - tonumber(a[5])) % 7
    following = first + 7
  end
  return first * DAY_MS - offset, following * DAY_MS - offset
end

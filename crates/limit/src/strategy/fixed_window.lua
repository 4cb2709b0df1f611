-- fixed_window.rs. Arguments: cost, limit, window_ms.
local window_ms = tonumber(a[3])
local function window(at)
  local start = math.floor(at / window_ms) * window_ms
  return start, start + window_ms
end

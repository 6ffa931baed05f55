local proto = Proto(NAME, "P4 program " .. FILE)

-- Filled in below: what the parser extracts, its states, and the values that its decisions depend on.
local headers, states = {}, {}
local initial_values

-- Most states that a packet may pass, so that a loop without an end does not block Wireshark.
local MOST_STEPS = 10000

-- ---- Values: numbers of at most 32 bits, and binary digits -----------------------------------

local BYTES = {}
for byte = 0, 255 do
  local text = ""
  for bit = 7, 0, -1 do
    text = text .. math.floor(byte / 2 ^ bit) % 2
  end
  BYTES[byte] = text
end

local function digits(value, width)
  local text = ""
  for shift = 24, 0, -8 do
    text = text .. BYTES[math.floor(value / 2 ^ shift) % 256]
  end
  return text:sub(33 - width)
end

local function number(text)
  return tonumber(text, 2)
end

local function flipped(text)
  return (text:gsub("[01]", { ["0"] = "1", ["1"] = "0" }))
end

-- Lua 5.2 has a library for this, later versions have operators.
local function bit_function(name, operator)
  if bit32 then
    return bit32[name]
  end
  return load("return function(a, b) return a " .. operator .. " b end")()
end

local bit_and = bit_function("band", "&")
local bit_or = bit_function("bor", "|")
local bit_xor = bit_function("bxor", "~")

local function digitwise(operation, a, b)
  local parts = {}
  for at = 1, #a do
    parts[at] = operation(a:byte(at) - 48, b:byte(at) - 48)
    parts[at] = parts[at] == 1 and "1" or "0"
  end
  return table.concat(parts)
end

-- Bits hi to lo of a number.
local function part(value, hi, lo)
  return math.floor(value / 2 ^ lo) % 2 ^ (hi - lo + 1)
end

local function with_part(whole, hi, lo, value)
  return whole + (value - part(whole, hi, lo)) * 2 ^ lo
end

local function with_digits(whole, hi, lo, value)
  local width = hi - lo + 1
  local text = width <= 32 and digits(value, width) or value
  return whole:sub(1, #whole - 1 - hi) .. text .. whole:sub(#whole - lo + 1)
end

local function signed(value, width)
  return value >= 2 ^ (width - 1) and value - 2 ^ width or value
end

-- The lowest 32 bits of a product, exact below 2^53.
local function product(a, b)
  local low, high = b % 65536, math.floor(b / 65536)
  return (a * low + (a * high % 65536) * 65536) % 4294967296
end

local function shifted_left(value, by, width)
  return by >= width and 0 or value * 2 ^ by % 2 ^ width
end

local function shifted_right(value, by, width)
  return by >= width and 0 or math.floor(value / 2 ^ by)
end

local function shifted_right_signed(value, by, width)
  return math.floor(signed(value, width) / 2 ^ math.min(by, width)) % 2 ^ width
end

-- ---- The packet ----------------------------------------------------------------------------------

-- Ends the parsing of a packet; `why` is shown.
local function stop(p, why)
  p.why = why
  error(p, 0)
end

local function step(p)
  p.steps = p.steps + 1
  if p.steps > MOST_STEPS then
    stop(p, "the parser passes more than " .. MOST_STEPS .. " states")
  end
end

-- Stops if the packet has fewer bytes left.
local function need(p, bytes, what)
  if p.at + bytes > #p.raw then
    local captured = #p.raw < p.length and "the captured part of the packet" or "the packet"
    stop(p, captured .. " ends within " .. what)
  end
end

local function byte(p, at)
  return at < 0 and 0 or p.raw:byte(at + 1)
end

-- The bits of the packet from `offset` bits after byte `at` on.
local function packet_digits(p, at, offset, width)
  local parts = {}
  for index = at + math.floor(offset / 8), at + math.floor((offset + width - 1) / 8) do
    parts[#parts + 1] = BYTES[byte(p, index)]
  end
  return table.concat(parts):sub(offset % 8 + 1, offset % 8 + width)
end

-- The same as a value.
local function packet_value(p, at, offset, width)
  local text = packet_digits(p, at, offset, width)
  return width <= 32 and number(text) or text
end

-- Sets slots to the next bits: lists of offset, width and slot.
local function look_ahead(p, v, bits, wanted)
  need(p, math.ceil(bits / 8), "what the parser looks at")
  for _, field in ipairs(wanted) do
    v[field[3]] = packet_value(p, p.at, field[1], field[2])
  end
end

local function advance(p, bits)
  if bits % 8 ~= 0 then
    stop(p, "the parser skips a part of a byte")
  end
  need(p, bits / 8, "what the parser skips")
  p.at = p.at + bits / 8
end

-- ---- Headers ---------------------------------------------------------------------------------------

local NATIVE = { [8] = "8", [16] = "16", [24] = "24", [32] = "32", [64] = "64" }
local by_filter = {}

-- How a field is shown. Where Wireshark cannot read it from whole bytes with a mask of at most 32
-- bits, `show` says in which form its value is given.
local function field_of(filter, field)
  local first, width = field.offset % 8, field.width
  local bytes = math.ceil((first + width) / 8)
  local aligned = first == 0 and width % 8 == 0
  local kind = field.signed and "int" or "uint"
  local name = field.name
  if field.varbit or width > 64 then
    if aligned then
      return ProtoField.bytes(filter, name)
    end
    field.show = "text"
    return ProtoField.string(filter, name)
  end
  local base_of = (field.signed or width < 16 or field.names) and base.DEC or base.DEC_HEX
  if aligned and (NATIVE[width] or not field.signed) then
    return ProtoField[kind .. (NATIVE[width] or "64")](filter, name, base_of, field.names)
  end
  if bytes <= 4 then
    local mask = (2 ^ width - 1) * 2 ^ (8 * bytes - first - width)
    mask = math.floor(mask)
    return ProtoField[kind .. 8 * bytes](filter, name, base_of, field.names, mask)
  end
  field.show = kind
  return ProtoField[kind .. "64"](filter, name, base_of, field.names)
end

-- Completes the description of a header: a list of fields, each with the last part of its filter, its
-- name, and its width in bits.
local function header(h)
  local offset = 0
  h.filter = NAME .. "." .. h.filter
  for _, field in ipairs(h) do
    field.name, field.width, field.offset = field[2], field[3], offset
    if field.varbit then
      h.varbit = field
    else
      offset = offset + field.width
    end
    field.after_varbit = h.varbit ~= nil and h.varbit ~= field
    local filter = h.filter .. "." .. field[1]
    local made = field_of(filter, field)
    by_filter[filter] = by_filter[filter] or made
    field.proto = by_filter[filter]
    h.has_names = h.has_names or field.names ~= nil
  end
  by_filter[h.filter] = by_filter[h.filter] or ProtoField.none(h.filter, h.name)
  h.proto = by_filter[h.filter]
  h.bytes = offset / 8
  return h
end

-- A value of at most 64 bits in the form that Wireshark takes.
local function integer(text, kind)
  local sign = kind == "int" and text:sub(1, 1) or "0"
  text = sign:rep(64 - #text) .. text
  local make = kind == "int" and Int64 or UInt64
  return make(number(text:sub(33)), number(text:sub(1, 32)))
end

local function show_field(p, tree, at, field, offset, width)
  if width == 0 then
    return
  end
  local start = at + math.floor(offset / 8)
  local range = p.whole:range(start, math.ceil((offset % 8 + width) / 8))
  if not field.show then
    tree:add(field.proto, range)
  elseif field.show == "text" then
    tree:add(field.proto, range, packet_digits(p, at, offset, width))
  else
    tree:add(field.proto, range, integer(packet_digits(p, at, offset, width), field.show))
  end
end

local function show_header(p, h, bytes, varbits)
  if not p.found then
    -- A payload is one of the program's only if the parser gets exactly to it.
    if p.payload and p.at ~= p.show then
      return
    end
    p.found = true
    p.root = p.tree:add(proto, p.whole:range(p.show, p.limit - p.show))
  end
  local title = h.name .. " (" .. h.type .. ")"
  local tree = p.root:add(h.proto, p.whole:range(p.at, bytes)):set_text(title)
  for _, field in ipairs(h) do
    local offset = field.offset + (field.after_varbit and varbits or 0)
    show_field(p, tree, p.at, field, offset, field.varbit and varbits or field.width)
  end
end

-- Extracts a header, with this number of bits in its varbit.
local function extract(p, v, h, varbits)
  varbits = varbits or 0
  if varbits % 8 ~= 0 then
    stop(p, "a part of a byte would be in " .. h.name)
  end
  if h.varbit and varbits > h.varbit.width then
    stop(p, h.name .. " would be longer than the program allows")
  end
  local bytes = h.bytes + varbits / 8
  need(p, bytes, h.name)
  for _, field in ipairs(h) do
    if field.slot then
      local offset = field.offset + (field.after_varbit and varbits or 0)
      if field.varbit then
        local text = varbits > 0 and packet_digits(p, p.at, offset, varbits) or ""
        text = ("0"):rep(field.width - varbits) .. text
        v[field.slot] = field.width <= 32 and number(text) or text
      else
        v[field.slot] = packet_value(p, p.at, offset, field.width)
      end
    end
  end
  if h.valid then
    v[h.valid] = 1
  end
  if h.length then
    v[h.length] = varbits
  end
  if p.at >= p.show and bytes > 0 then
    show_header(p, h, bytes, varbits)
    p.last = p.last and p.last.has_names and not h.has_names and p.last or
      { header = h, at = p.at, varbits = varbits, has_names = h.has_names }
  end
  p.at = p.at + bytes
end

-- An element of a stack, counted from zero.
local function element(p, elements, index)
  return elements[index + 1] or stop(p, "the parser goes beyond the end of a header stack")
end

-- The value in one of these slots, counted from zero.
local function pick(v, slots, index, zero)
  local slot = slots[index + 1]
  return slot and v[slot] or zero
end

-- ---- The dissector ---------------------------------------------------------------------------------

-- The fields of a header in one line: names of values, flags that are set, and the rest with names.
local function summary(p)
  local parts = {}
  for _, field in ipairs(p.last.header) do
    if field.width <= 32 and not field.varbit and #parts < 16 then
      local offset = field.offset + (field.after_varbit and p.last.varbits or 0)
      local value = packet_value(p, p.last.at, offset, field.width)
      local filler = field.name:find("reserved") or field.name:find("unused") or field.name:find("pad")
      if field.names and field.names[value] then
        parts[#parts + 1] = field.names[value]
      elseif field.width == 1 then
        parts[#parts + 1] = value == 1 and field.name or nil
      elseif not filler then
        value = field.signed and signed(value, field.width) or value
        parts[#parts + 1] = string.format("%s %d", field.name, value)
      end
    end
  end
  return p.last.header.name .. ": " .. table.concat(parts, ", ")
end

-- Follows the parser from the first byte of `whole` on, and shows the headers from byte `show` on, up
-- to byte `limit`. Returns the number of shown bytes.
local function dissect(whole, show, limit, payload, pinfo, tree)
  local p = {
    whole = whole, raw = whole:raw(), length = whole:reported_len(), show = show, limit = limit,
    payload = payload, at = -PREFIX, steps = 0, tree = tree,
  }
  local v = initial_values(p.length)
  local done, problem = pcall(function()
    local state = 1
    while state ~= 0 do
      step(p)
      state = states[state](p, v)
    end
  end)
  if not done and problem ~= p then
    error(problem, 0)
  end
  if not p.found then
    return 0
  end
  pinfo.cols.protocol = NAME
  pinfo.cols.info = summary(p)
  if p.why then
    p.root:append_text(" [" .. p.why .. "]")
  end
  if p.at < limit then
    Dissector.get("data"):call(whole:range(p.at, limit - p.at):tvb(), pinfo, p.root)
  end
  return limit - show
end

-- Registers the fields, which must happen once.
local function register_fields()
  local all = {}
  for _, field in pairs(by_filter) do
    all[#all + 1] = field
  end
  proto.fields = all
end

-- Dissects whole frames.
local function dissect_frames()
  register_fields()
  function proto.dissector(tvb, pinfo, tree)
    return dissect(tvb, 0, tvb:len(), false, pinfo, tree)
  end
  DissectorTable.get("wtap_encap"):add(wtap.ETHERNET, proto)
end

-- Dissects payloads that Wireshark finds by these numbers in one of its tables. The parser starts at
-- the beginning of the frame all the same, because its decisions may depend on all headers. `before`
-- is a field of the header before the payload, which leads to the frame.
local function dissect_payloads(before, dissectors, numbers)
  register_fields()
  local field = Field.new(before)
  function proto.dissector(tvb, pinfo, tree)
    local found = { field() }
    local frame = #found > 0 and found[#found].source
    if not frame then
      return 0
    end
    return dissect(frame, tvb:offset(), tvb:offset() + tvb:len(), true, pinfo, tree)
  end
  for _, number in ipairs(numbers) do
    DissectorTable.get(dissectors):add(number, proto)
  end
end


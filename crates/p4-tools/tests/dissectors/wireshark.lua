-- The part of Wireshark's interface that dissectors use, written from its manual. It records what is
-- shown: a list of { filter, text, start, length, bits }, where the bits are those of the shown value.

shown = {}
registered = {}

local function bits_of(bytes)
  local text = ""
  for at = 1, #bytes do
    for bit = 7, 0, -1 do
      text = text .. (bytes:byte(at) >> bit & 1)
    end
  end
  return text
end

local Range = {}
Range.__index = Range

local function new_tvb(bytes, offset)
  local tvb = { bytes = bytes }
  function tvb:len() return #bytes end
  function tvb:reported_len() return #bytes end
  function tvb:raw() return bytes end
  function tvb:offset() return offset end
  function tvb:range(start, length)
    assert(math.type(start) == "integer" or start == math.floor(start), "a start between bytes")
    assert(length >= 0 and start >= 0 and start + length <= #bytes, "a range beyond the end")
    return setmetatable({ start = start, length = length, bytes = bytes }, Range)
  end
  return tvb
end

function Range:tvb()
  return new_tvb(self.bytes:sub(self.start + 1, self.start + self.length), self.start)
end

local Node = {}
Node.__index = Node

function Node:add(what, range, value)
  local node = setmetatable({ filter = what.filter, start = range.start, length = range.length }, Node)
  local bytes = range.bytes:sub(range.start + 1, range.start + range.length)
  if value ~= nil then
    node.bits = type(value) == "table" and value.bits or value
  elseif what.size then
    assert(range.length <= what.size, "a range longer than the field's type")
    node.bits = bits_of(bytes)
    if what.mask then
      local selected = ""
      local mask = bits_of(string.pack(">I" .. what.size, what.mask))
      for at = 1, #mask do
        if mask:sub(at, at) == "1" then
          selected = selected .. node.bits:sub(at, at)
        end
      end
      node.bits = selected
    end
  else
    node.bits = bits_of(bytes)
  end
  shown[#shown + 1] = node
  return node
end

function Node:set_text(text)
  self.text = text
  return self
end

function Node:append_text(text)
  self.text = (self.text or "") .. text
  return self
end

base = { DEC = 1, HEX = 2, DEC_HEX = 3 }
ProtoField = {}

local function check_filter(filter)
  assert(filter:match("^[%w_.-]+$") and not filter:find("..", 1, true), "filter " .. filter)
  assert(not filter:match("%.$"), "filter " .. filter)
end

for _, kind in ipairs { "int", "uint" } do
  for _, width in ipairs { 8, 16, 24, 32, 64 } do
    ProtoField[kind .. width] = function(filter, name, form, names, mask)
      check_filter(filter)
      assert(name and form and (names == nil or type(names) == "table"))
      assert(mask == nil or width <= 32, "Wireshark has no masks of 64 bits")
      return { filter = filter, size = width // 8, mask = mask }
    end
  end
end

for _, kind in ipairs { "bytes", "string", "none" } do
  ProtoField[kind] = function(filter, name)
    check_filter(filter)
    assert(name)
    return { filter = filter }
  end
end

local function integer(low, high)
  assert(low < 2 ^ 32 and high < 2 ^ 32)
  return { bits = bits_of(string.pack(">I4I4", high, low)) }
end
UInt64, Int64 = integer, integer

function Proto(name)
  return { filter = name }
end

wtap = { ETHERNET = 1 }
DissectorTable = {}
function DissectorTable.get(dissectors)
  return {
    add = function(_, number, proto)
      registered[#registered + 1] = dissectors .. " " .. number
      dissector = proto.dissector
    end,
  }
end

rest = nil
Dissector = {}
function Dissector.get(name)
  assert(name == "data")
  return { call = function(_, tvb) rest = tvb:len() end }
end

-- The header before a payload starts at this byte of the frame.
local whole
Field = {}
function Field.new(name)
  return function() return { source = whole, name = name } end
end

-- Runs the dissector for the part of a frame from byte `start` on. Returns what it shows, the reason why
-- it stopped early, the text of the column of information, and the number of bytes behind the headers.
function run(frame, start)
  shown, rest = {}, nil
  whole = new_tvb(frame, 0)
  local part = start == 0 and whole or whole:range(start, #frame - start):tvb()
  local info = { cols = {} }
  local root = setmetatable({}, Node)
  local used = dissector(part, info, root)
  local list = {}
  for _, node in ipairs(shown) do
    list[#list + 1] = {
      filter = node.filter, text = node.text, start = node.start, length = node.length, bits = node.bits,
    }
  end
  return list, used, info.cols.info, rest
end

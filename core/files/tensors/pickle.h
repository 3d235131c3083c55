// Reads a pickle of containers, numbers and strings without running anything: where Python would call a function, the
// value holds the function's name and the arguments. Supports protocols 2 to 5, as far as torch.save uses them. Format:
// CPython's Lib/pickletools.py.
#pragma once

#include <cstdint>
#include <deque>
#include <string_view>
#include <vector>

namespace moescope {

struct PickleValue {
  enum class Kind : std::uint8_t {
    none,    // None, floating-point numbers
    number,  // bools and integers
    large,   // an integer of more than 64 bits: `text` is its bytes
    text,    // strings and bytes
    list,    // lists, tuples and sets: `items`
    dict,    // `items` of key and value in turn
    global,  // the function or class `name` of the module `text`
    call,    // call of items[0] with the arguments items[1]; `state` is passed to the result afterwards
    storage  // a persistent id, items[0], of bytes outside of the pickle
  };
  Kind kind = Kind::none;
  std::int64_t number = 0;
  std::string_view text, name;  // point into the pickle
  std::vector<PickleValue*> items;
  PickleValue* state = nullptr;

  bool is(std::string_view module, std::string_view global) const {
    return kind == Kind::global && text == module && name == global;
  }
};

// A value may occur in several places, even in itself.
struct Pickle {
  std::deque<PickleValue> values;
  const PickleValue* root = nullptr;
  std::size_t bytes = 0;  // length of the pickle in the given bytes
};
// `bytes` must outlive the result and may be longer than the pickle. Throws std::runtime_error: "pickle ends too
// early", "pickle takes more than 256 MiB of memory", ...
Pickle read_pickle(std::string_view bytes);

}  // namespace moescope

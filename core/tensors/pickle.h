// Reads a pickle of containers, numbers and strings, without running anything: where Python would call a function, the
// value says which one, with what. Protocols 2 to 5, as far as torch.save writes them.
// Format: CPython's Lib/pickletools.py.
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
    call,    // of items[0] with the arguments items[1]; `state` is what it is given afterwards
    storage  // a persistent id, items[0]: bytes that lie beside the pickle
  };
  Kind kind = Kind::none;
  std::int64_t number = 0;
  std::string_view text, name;  // in the bytes that were read
  std::vector<PickleValue*> items;
  PickleValue* state = nullptr;

  bool is(std::string_view module, std::string_view global) const {
    return kind == Kind::global && text == module && name == global;
  }
};

// Values may stand in several places, even in themselves.
struct Pickle {
  std::deque<PickleValue> values;
  const PickleValue* root = nullptr;
  std::size_t bytes = 0;  // that it takes of those given
};
// `bytes` must outlive the pickle; others may follow behind its end. Throws std::runtime_error: "pickle ends too
// early", "pickle takes more than 256 MiB of memory", ...
Pickle read_pickle(std::string_view bytes);

}  // namespace moescope

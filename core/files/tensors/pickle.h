// Reads a pickle of containers, numbers and strings, without running anything: where Python would call a function, the
// value says which one, with what. Protocols 2 to 5, as far as torch.save writes them.
// Format: CPython's Lib/pickletools.py.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace moescope {

struct PickleValue {
  enum class Kind {
    none,
    number,  // bools and integers
    text,    // strings and bytes
    list,    // lists and tuples: `items`
    dict,    // `items` of key and value in turn
    global,  // `text` is "module name"
    call,    // of items[0] with the arguments items[1], a list
    storage  // a persistent id, items[0]: bytes that lie beside the pickle
  };
  Kind kind = Kind::none;
  std::int64_t number = 0;
  std::string text;
  std::vector<PickleValue*> items;
};

// Values may stand in several places, even in themselves.
struct Pickle {
  std::deque<PickleValue> values;
  const PickleValue* root = nullptr;
};
// Throws std::runtime_error: "pickle ends too early", ...
Pickle read_pickle(std::string_view bytes);

}  // namespace moescope

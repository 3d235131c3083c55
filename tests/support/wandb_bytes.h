// Writes files of W&B like wandb/sdk/internal/datastore.py.
#pragma once

#include <zlib.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/support/protobuf_bytes.h"

namespace moescope {

inline std::string wandb_file(const std::vector<std::string>& records) {
  constexpr std::size_t kBlock = 32768, kHeader = 7;
  std::string file(":W&B\xe1\xbe\0", 7);
  for (const std::string& record : records) {
    std::string_view unread = record;
    for (bool first = true; first || !unread.empty(); first = false) {
      std::size_t room = kBlock - file.size() % kBlock;
      if (room < kHeader) {
        file.append(room, '\0');
        room = kBlock;
      }
      const std::size_t length = std::min(unread.size(), room - kHeader);
      const bool last = length == unread.size();
      const int whole_or_first = last ? 1 : 2, last_or_middle = last ? 4 : 3;
      std::string checked(1, static_cast<char>(first ? whole_or_first : last_or_middle));
      checked += unread.substr(0, length);
      const auto crc = crc32(0, reinterpret_cast<const Bytef*>(checked.data()), static_cast<uInt>(checked.size()));
      file += little_endian(static_cast<std::uint32_t>(crc)) + little_endian(static_cast<std::uint16_t>(length));
      file += checked;
      unread.remove_prefix(length);
      if (last) break;
    }
  }
  return file;
}

// Keys and their values in JSON.
using WandbItems = std::vector<std::pair<std::string, std::string>>;
inline std::string wandb_items(int field, const WandbItems& items) {
  std::string bytes;
  for (const auto& [key, json] : items) bytes += pb_bytes(field, pb_bytes(1, key) + pb_bytes(16, json));
  return bytes;
}
inline std::string wandb_row(const WandbItems& items) {
  return pb_bytes(2, wandb_items(1, items));
}
inline std::string wandb_row(std::int64_t step, WandbItems items) {
  items.emplace_back("_step", std::to_string(step));
  return wandb_row(items);
}
inline std::string wandb_metric(const std::string& name, const std::string& glob, const std::string& step_metric) {
  return pb_bytes(12, pb_bytes(1, name) + pb_bytes(2, glob) + pb_bytes(4, step_metric));
}
// `more`: bytes of further fields of the run.
inline std::string wandb_run(const std::string& id, const std::string& name, const std::string& more = {}) {
  return pb_bytes(17, pb_bytes(1, id) + pb_bytes(8, name) + more);
}

}  // namespace moescope

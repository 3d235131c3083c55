// Records of TensorBoard's event files, as in tensorboard/compat/proto.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "core/logs/events/event_records.h"
#include "tests/support/protobuf_bytes.h"

namespace moescope {

inline std::string tb_event(std::int64_t step, double wall, const std::string& what) {
  return framed_record(pb_double(1, wall) + pb_number(2, static_cast<std::uint64_t>(step)) + what);
}
// `values`: concatenated results of tb_scalar() and tb_tensor().
inline std::string tb_summary(std::int64_t step, double wall, const std::string& values) {
  return tb_event(step, wall, pb_bytes(5, values));
}
inline std::string tb_session_start(std::int64_t step, double wall) {
  return tb_event(step, wall, pb_bytes(7, pb_number(1, 1)));
}
inline std::string tb_scalar(const std::string& tag, float value) {
  return pb_bytes(1, pb_bytes(1, tag) + pb_float(2, value));
}
inline std::string tb_shape(const std::vector<std::uint64_t>& shape) {
  std::string dims;
  for (const std::uint64_t extent : shape) dims += pb_bytes(2, pb_number(1, extent));
  return pb_bytes(2, dims);
}
inline std::string tb_plugin(const std::string& name) {
  return pb_bytes(9, pb_bytes(1, pb_bytes(1, name)));
}
// A tensor of floats; if `values` has one element, it is the value of all elements.
inline std::string tb_tensor(const std::string& tag, const std::vector<std::uint64_t>& shape,
                             const std::vector<float>& values, const std::string& plugin = {}) {
  std::string list;
  for (const float value : values) list += little_endian(value);
  return pb_bytes(1, pb_bytes(1, tag) + (plugin.empty() ? std::string() : tb_plugin(plugin)) +
                         pb_bytes(8, pb_number(1, 1) + tb_shape(shape) + pb_bytes(5, list)));
}

inline void write_bytes(const std::filesystem::path& path, const std::string& bytes) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << bytes;
}

}  // namespace moescope

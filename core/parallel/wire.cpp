#include "core/parallel/wire.h"

#include <stdexcept>
#include <string>

#include "core/parallel/volumes.h"

namespace moescope {
namespace {

class Wire {
 public:
  Wire(const VolumeFrame& volume, bool over_nodes)
      : v_(volume), over_nodes_(over_nodes), bytes_(static_cast<std::size_t>(volume.ranks) * size()) {}

  std::vector<std::uint64_t> take() { return std::move(bytes_); }

  // Adds a copy for every chosen expert, to it or back.
  void add_copies(std::int64_t row_bytes, bool back) {
    for (int source = 0; source < v_.ranks; ++source)
      for (int to = 0; to < v_.ranks; ++to) {
        const std::uint64_t n = v_.copies_RR[at(source, to)] * static_cast<std::uint64_t>(row_bytes);
        back ? add_route(to, source, n) : add_route(source, to, n);
      }
  }

  // Adds one copy to each node, to the rank with the same local index there, and one from it to each rank.
  void add_merged(std::int64_t row_bytes) {
    const auto row = static_cast<std::uint64_t>(row_bytes);
    const int nodes = v_.ranks / v_.ranks_per_node;
    for (int source = 0; source < v_.ranks; ++source) {
      for (int to = 0; to < v_.ranks; ++to) add(gateway(source, to), to, v_.distinct_RR[at(source, to)] * row);
      for (int node = 0; node < nodes; ++node) {
        const auto n = v_.nodes_RN[static_cast<std::size_t>(source * nodes + node)];
        add(source, node * v_.ranks_per_node + source % v_.ranks_per_node, n * row);
      }
    }
  }

 private:
  std::size_t size() const { return static_cast<std::size_t>(v_.ranks); }
  std::size_t at(int from, int to) const {
    return static_cast<std::size_t>(from) * size() + static_cast<std::size_t>(to);
  }
  int gateway(int from, int to) const {
    const int node = to / v_.ranks_per_node;
    return node == from / v_.ranks_per_node ? from : node * v_.ranks_per_node + from % v_.ranks_per_node;
  }
  void add(int from, int to, std::uint64_t bytes) {
    if (from != to) bytes_[at(from, to)] += bytes;
  }
  void add_route(int from, int to, std::uint64_t bytes) {
    if (!over_nodes_) return add(from, to, bytes);
    add(from, gateway(from, to), bytes);
    add(gateway(from, to), to, bytes);
  }

  const VolumeFrame& v_;
  bool over_nodes_;
  std::vector<std::uint64_t> bytes_;
};

}  // namespace

RowBytes wire_row_bytes(std::string_view payload, std::int64_t dim) {
  if (payload == "fp32") return {4 * dim, 4 * dim, 4 * dim, 4 * dim};
  if (payload != "bf16" && payload != "mxfp8")
    throw std::runtime_error("payload '" + std::string(payload) + "' is none of fp32, bf16, mxfp8");
  const std::vector<AllToAllOp> ops = all_to_all_ops(payload_named(payload), false);
  const auto bytes = [&](std::size_t op) { return bytes_per_token(ops[op].payload, dim); };
  return {bytes(0), bytes(1), bytes(2), bytes(3)};
}

std::vector<std::uint64_t> wire_bytes(const VolumeFrame& volume, bool over_nodes, const RowBytes& row) {
  Wire wire(volume, over_nodes);
  over_nodes ? wire.add_merged(row.dispatch) : wire.add_copies(row.dispatch, false);
  wire.add_copies(row.combine, true);
  wire.add_copies(row.combine_gradient, false);
  wire.add_copies(row.dispatch_gradient, true);
  return wire.take();
}

}  // namespace moescope

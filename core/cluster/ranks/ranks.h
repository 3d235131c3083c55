// The processes (ranks) among which experts and tokens of one training are spread.
//
// Legend: R ranks. Every call is collective: all ranks must make it, in the same order, or they deadlock. R is a power
// of two, so that a sum over ranks is a balanced tree, and a single process can add in the same order.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace moescope {

class Ranks {
 public:
  Ranks(int ranks_per_node, bool over_nodes) : ranks_per_node_(ranks_per_node), over_nodes_(over_nodes) {}
  virtual ~Ranks() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual int ranks_on_machine() const { return size(); }  // ranks that share the cores of this machine
  // Number of neighbouring ranks that count as one node with a fast link.
  int ranks_per_node() const { return ranks_per_node_; }
  // True if token rows are sent through a rank of the destination's node (two_hop.h) and not straight to their rank.
  bool over_nodes() const { return over_nodes_; }

  // Sends `bytes` to `partner` and receives as many from it. `partner` must make the matching call.
  virtual void exchange(int partner, const void* send, void* receive, std::size_t bytes) = 0;
  // Writes `own_bytes` of every rank to `all`, [R][bytes], in the order of the ranks.
  virtual void gather_all(const void* own_bytes, std::size_t bytes, void* all) = 0;
  // Sizes and positions of the bytes that are sent to each rank, or received from it, [R]. Bytes for the rank itself
  // are copied.
  struct Parts {
    // Part r has counts[r] times `unit` bytes. Parts follow each other without gaps.
    explicit Parts(const auto& counts, std::size_t unit = 1) {
      for (const std::size_t n : counts) {
        bytes.push_back(n * unit);
        offset.push_back(total);
        total += bytes.back();
      }
    }

    std::vector<std::size_t> bytes, offset;
    std::size_t total = 0;
  };
  void all_to_all(const void* send, const Parts& sent, void* receive, const Parts& received) {
    const auto start = std::chrono::steady_clock::now();
    send_to_all(send, sent, receive, received);
    traffic_.ms += std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    traffic_.sent.resize(sent.bytes.size());
    for (std::size_t r = 0; r < sent.bytes.size(); ++r) traffic_.sent[r] += sent.bytes[r];
  }

  // Traffic of all_to_all() since the last call of take_traffic(): bytes given to the transport for each rank, [R],
  // including those for the rank itself, and the time on this rank, including waiting for others.
  struct Traffic {
    std::vector<std::uint64_t> sent;
    double ms = 0;
  };
  Traffic take_traffic() {
    Traffic traffic = std::move(traffic_);
    traffic.sent.resize(size());
    traffic_ = {};
    return traffic;
  }

 protected:
  virtual void send_to_all(const void* send, const Parts& sent, void* receive, const Parts& received) = 0;

 private:
  int ranks_per_node_;
  bool over_nodes_;
  Traffic traffic_;
};

// Replaces each element of `values` by its sum over all ranks, (0 + 1) + (2 + 3), with equal bits on every rank.
// `ranks` is nullptr for a single rank, whose values do not change.
template <class T>
void sum_over_ranks(Ranks* ranks, std::span<T> values) {
  if (!ranks) return;
  std::vector<T> other(values.size());
  for (int distance = 1; distance < ranks->size(); distance *= 2) {
    ranks->exchange(ranks->rank() ^ distance, values.data(), other.data(), values.size_bytes());
    for (std::size_t i = 0; i < other.size(); ++i)
      values[i] += other[i];  // addition commutes, so both ranks get equal sums
  }
}

}  // namespace moescope

// Computes statistics of the experts of every token: loads, co-activation of experts, and how well the experts of a
// layer predict those of the next layer.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/files/text/json_values.h"
#include "core/logs/import.h"

namespace moescope {

// A layer as the writer of a log names it: a layer of the decoder, or of a multi-token prediction block, which follows
// the decoder.
struct RoutedLayer {
  bool mtp = false;
  int layer = 0;
  bool operator<(const RoutedLayer& other) const { return std::pair(mtp, layer) < std::pair(other.mtp, other.layer); }
};

// Returns the layer of a line of Megatron-LM: {"block": "mtp", "mtp_idx": 0, "layer": 3}. Throws Unreadable.
RoutedLayer routed_layer(const JsonFields& line);
// Sets the numbers of the layers in a run: those of prediction blocks follow those of the decoder.
void number_layers(std::map<RoutedLayer, int>& numbers);

// Experts of each token, by step and layer: row-major [tokens, K]. Each row is sorted and has the slots without an
// expert last.
struct RoutedRows {
  static constexpr std::uint16_t kNowhere = 0xffff;  // slot without an expert
  std::map<std::int64_t, std::map<RoutedLayer, std::vector<std::uint16_t>>> steps;
  std::size_t top_k = 0;
};

std::span<const std::uint16_t> chosen_of(std::span<const std::uint16_t> row_K);  // a kept row without its empty slots

RunInfo info_of_run(const std::string& path, const ImportOptions& options);  // of the only run in a file or folder

// Counts slots that hold no expert, for one marker per file.
class EmptySlotCount {
 public:
  void add(std::size_t slots, std::size_t empty) {
    slots_ += slots;
    empty_ += empty;
  }
  // Appends "12 of 400 slots have no expert and are sent nowhere" if there are any.
  void mark(History& history, const ImportOptions& options) const;

 private:
  std::size_t slots_ = 0, empty_ = 0;
};

class RoutedTokenStatistics {
 public:
  explicit RoutedTokenStatistics(std::string source = {}) : source_(std::move(source)) {}  // `source`: for messages
  // Adds the experts of one token; sorts `experts_K`. An expert may occur twice. If there are fewer than K experts, the
  // other slots are empty. Throws std::runtime_error if the loads take more than kMaxLoadBytes.
  void add(std::int64_t step, RoutedLayer layer, std::vector<int>& experts_K);
  // Sets K; to be called before the first token if rows may have empty slots. Otherwise K is the size of the first row.
  void expect_top_k(std::size_t top_k);
  void expect_experts(int experts);  // the number of experts is at least this, even if some are never chosen
  bool empty() const { return steps_.empty(); }
  // Builds a frame per step. Its co-activation is that of the step if the tables of all steps are small. Otherwise the
  // last frame has the co-activation of all steps together, if the tables of one frame are small. With options.routes,
  // frames also have flips and overlap against these routes, for steps and layers with equal numbers of tokens. Throws
  // std::runtime_error if there are more layers and experts than can be shown.
  std::shared_ptr<History> build(RunInfo info, const ImportOptions& options);
  std::shared_ptr<const RoutedRows> rows() const { return rows_; }  // nullptr if there were too many to keep

 private:
  std::string source_;
  static constexpr std::size_t kMaxLoadBytes = std::size_t{1} << 30;
  // Counts by expert take memory for the experts that occur only: one high number must not take memory for all below.
  struct Chosen {
    std::map<int, std::uint32_t> load;  // of tokens whose experts are not kept
    // Number of these tokens that chose both experts, by (i, j) with i <= j.
    std::map<std::pair<int, int>, std::uint32_t> together;
    std::int64_t tokens = 0;
  };
  // Adds the number of tokens that chose both experts, for each pair, to the upper triangle of the table.
  void add_together(std::int64_t step, RoutedLayer layer, std::vector<std::uint32_t>& upper_EE) const;
  // Keeps the experts of a token in rows_. Drops rows_ and returns false if there are more than can be kept, more than
  // K, or numbers that do not fit; no experts are kept after that.
  bool keep(std::int64_t step, RoutedLayer layer, const std::vector<int>& experts_K);
  void count_kept_rows();
  template <typename Experts>
  void count(Chosen& chosen, const Experts& experts_K);
  std::vector<std::uint32_t> load_of(std::int64_t step, RoutedLayer layer) const;  // [experts]
  std::vector<FlipFrame> flips_from(const RoutedRows& reference, std::int64_t step,
                                    const std::map<RoutedLayer, int>& numbers) const;

  std::map<std::int64_t, std::map<RoutedLayer, Chosen>> steps_;
  std::shared_ptr<RoutedRows> rows_ = std::make_shared<RoutedRows>();
  std::size_t kept_slots_ = 0;  // number of slots in rows_
  std::size_t load_bytes_ = 0;  // bytes of the loads and pairs in steps_
  std::size_t chosen_ = 0;      // number of slots with an expert
  int experts_ = 0, top_k_ = 0;
  std::string highest_at_;  // place of the highest expert
};

// Says in a remark and in an event of the run that its trace is shifted against options.routes (trace_shift.cpp);
// nothing if it is not.
void remark_shift(const ImportOptions& options, Imported& imported);

}  // namespace moescope

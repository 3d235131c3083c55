// What follows from the experts of every token: loads, which experts are chosen together, and how well a layer's
// predict the next one's.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/logs/import.h"

namespace moescope {

// A layer as the writer of a log names it: those of the decoder, and those of a multi-token prediction block, which
// stand after the decoder's.
struct RoutedLayer {
  bool mtp = false;
  int layer = 0;
  bool operator<(const RoutedLayer& other) const { return std::pair(mtp, layer) < std::pair(other.mtp, other.layer); }
};

// Which experts each token got: of a step and layer row-major [tokens, K], each row sorted, slots without an expert
// last.
struct RoutedRows {
  static constexpr std::uint16_t kNowhere = 0xffff;  // a slot without an expert
  std::map<std::int64_t, std::map<RoutedLayer, std::vector<std::uint16_t>>> steps;
  std::size_t top_k = 0;
};

// How many slots hold no expert, said once for a file.
class EmptySlotCount {
 public:
  void add(std::size_t slots, std::size_t empty) { slots_ += slots, empty_ += empty; }
  // Appends "12 of 400 slots hold no expert and are sent nowhere", where there are any.
  void mark(History& history, const ImportOptions& options) const;

 private:
  std::size_t slots_ = 0, empty_ = 0;
};

class RoutedTokens {
 public:
  explicit RoutedTokens(std::string source = {}) : source_(std::move(source)) {}  // for messages
  // One token's experts, of which one may stand there twice; sorted here. Fewer than K: the other slots hold none.
  // Tokens of a step and layer are added up. Throws std::runtime_error: the loads take more than kMostLoadBytes.
  void add(std::int64_t step, RoutedLayer layer, std::vector<int>& experts_K);
  // Of rows that have slots without an expert, before the first token; default: the size of the first row.
  void expect_top_k(std::size_t top_k);
  void expect_experts(int experts);  // there are at least as many, whether chosen or not
  bool empty() const { return steps_.empty(); }
  // A frame a step. Together: of every step while that stays small, else once, of all steps. With options.routes flips
  // and overlap against these, at steps and layers that have as many tokens there. Throws std::runtime_error: more
  // layers and experts than can be shown.
  std::shared_ptr<History> build(RunInfo info, const ImportOptions& options);
  std::shared_ptr<const RoutedRows> rows() const { return rows_; }  // nullptr: too many to keep

 private:
  std::string source_;
  static constexpr std::size_t kMostLoadBytes = std::size_t{1} << 30;
  struct Chosen {
    std::vector<std::uint32_t> load;  // [highest expert + 1]
    // Tokens that chose both, i <= j; of those alone whose experts are not kept.
    std::map<std::pair<int, int>, std::uint32_t> together;
    std::int64_t tokens = 0;
  };
  std::map<RoutedLayer, int> layer_numbers() const;
  // Adds the tokens that chose both experts to the half of the table above its diagonal.
  void add_together(std::int64_t step, RoutedLayer layer, std::vector<std::uint32_t>& upper_EE) const;
  // False: too many to keep, or not of one K; from then on none are kept.
  bool keep(std::int64_t step, RoutedLayer layer, const std::vector<int>& experts_K);
  void count_kept_pairs();
  std::vector<FlipFrame> flips_from(const RoutedRows& reference, std::int64_t step,
                                    const std::map<RoutedLayer, int>& numbers) const;

  std::map<std::int64_t, std::map<RoutedLayer, Chosen>> steps_;
  std::shared_ptr<RoutedRows> rows_ = std::make_shared<RoutedRows>();
  std::size_t kept_ = 0;        // experts in rows_
  std::size_t load_bytes_ = 0;  // of steps_
  int experts_ = 0, top_k_ = 0;
};

}  // namespace moescope

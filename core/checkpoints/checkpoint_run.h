// Texts run through a checkpoint, batch by batch. Each batch is a step with a frame like those of a training run, so
// that all panels that show loads, scores, domains and losses work on it.
//
// A text is cut into pieces of TextSources::length tokens; the remainder is a shorter piece. The texts alternate, so
// that a batch holds pieces of several texts. The first token of a piece is not predicted. Specialisation is counted
// over all batches, or over about a hundred at a time if there are hundreds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/checkpoints/checkpoint_model.h"
#include "core/checkpoints/routed_passage.h"
#include "core/checkpoints/text_sources.h"
#include "core/config/config_check.h"
#include "core/frame/frame.h"
#include "core/frame/router_stats.h"

namespace moescope {

struct TextBatches {
  int run = 0;              // RunInfo::run
  std::string source = {};  // the folder
  TextSources texts = {};   // for the settings; TextSources::length is the largest length of a piece
  Index sequences = 4;      // pieces of a batch; the last batch may have fewer
  std::string run_name = "checkpoint";
  const Tokenizer* tokenizer = nullptr;  // for the passage of each batch; nullptr: frames have none
  double memory = memory_of_machine();   // largest number of bytes that a batch may need
};

// Cross-entropy of the batches that have been run.
struct TextLoss {
  double sum = 0;           // nats
  std::int64_t tokens = 0;  // predicted tokens
  double mean() const { return tokens > 0 ? sum / tokens : 0; }
};

class CheckpointRun {
 public:
  // `model` and `texts` must outlive the run. Throws std::runtime_error if no text has two tokens or if a batch
  // needs too much memory.
  CheckpointRun(const CheckpointModel& model, const std::vector<LabelledText>& texts, const TextBatches& batches);

  const RunInfo& info() const { return info_; }
  std::string settings() const;  // text of a marker of kind kSettingsMarker
  std::int64_t steps() const { return (std::ssize(pieces_) + sequences_ - 1) / sequences_; }
  std::int64_t tokens() const { return all_tokens_; }
  std::vector<std::int32_t> next_ids() const;  // tokens of the next batch
  // Runs the next batch and returns its frame; the first one is step 0. `also`, unless nullptr, gets the routing and
  // the logits too. Throws as CheckpointModel::forward.
  TelemetryFrame step(PassWatch* also = nullptr);
  // Puts the specialisation counted since the last frame that shows it into `frame`. For the last frame of a run that
  // is stopped before its end.
  void show_specialisation(TelemetryFrame& frame);

  const std::vector<TextLoss>& losses() const { return losses_; }  // by domain, in the order of info().domains
  TextLoss loss() const;
  // Slots of each expert in the batches that have been run, [E] for each MoE layer.
  const std::vector<std::vector<std::uint64_t>>& load() const { return load_; }
  std::vector<double> fair_shares(std::size_t moe) const;  // load()[moe] divided by its mean, [E]

 private:
  using Batch = std::span<const TextPiece>;
  class Watch;
  Batch next_batch() const;
  RouterFrame router_frame(std::size_t moe, const RoutedTokens& tokens);
  void count_specialisation(std::size_t moe, Batch batch, const RoutedTokens& tokens);
  bool shows_specialisation(std::int64_t step) const;

  const CheckpointModel& model_;
  const std::vector<LabelledText>& texts_;
  TextSources sources_;
  RunInfo info_;
  const Tokenizer* tokenizer_;
  std::vector<int> domain_of_text_;
  std::vector<TextPiece> pieces_;
  Index sequences_;
  std::int64_t all_tokens_ = 0, next_ = 0, routed_tokens_ = 0;
  double wall_s_ = 0;
  std::vector<TextLoss> losses_;
  std::vector<std::vector<std::uint64_t>> load_;
  std::vector<LoadWindow> windows_;
  std::vector<SpecialisationFrame> specialisation_;  // counted since the last frame that showed it
};

}  // namespace moescope

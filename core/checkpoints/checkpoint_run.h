// Texts run through a checkpoint, batch by batch, with the frames of a training run: a step is a batch, and all panels
// that show loads, scores, domains and losses work on it.
//
// A text is cut into pieces of TextSources::length tokens, and what remains is a shorter piece; texts take turns, so
// that a batch holds pieces of several. The first token of a piece is predicted by nothing. Specialisation is counted
// over all batches, or where there are hundreds over about a hundred at a time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/checkpoints/checkpoint_model.h"
#include "core/checkpoints/routed_passage.h"
#include "core/checkpoints/text_sources.h"
#include "core/frame/frame.h"
#include "core/frame/router_stats.h"

namespace moescope {

struct TextBatches {
  int run = 0;              // RunInfo::run
  std::string source = {};  // the folder
  TextSources texts = {};   // for the settings; their length is that of a piece, at most
  Index sequences = 4;      // at most
  std::string run_name = "checkpoint";
  const Tokenizer* tokenizer = nullptr;  // for the passage of each batch; nullptr: frames have none
};

// Of all batches so far.
struct TextLoss {
  double sum = 0;  // nats
  std::int64_t tokens = 0;
  double mean() const { return tokens > 0 ? sum / static_cast<double>(tokens) : 0; }
};

class CheckpointRun {
 public:
  // The references must outlive it. Throws std::runtime_error: no text has two tokens.
  CheckpointRun(const CheckpointModel& model, const std::vector<LabelledText>& texts, const TextBatches& batches);

  const RunInfo& info() const { return info_; }
  std::string settings() const;  // for a marker of kind kSettingsMarker
  std::int64_t steps() const { return (std::ssize(pieces_) + sequences_ - 1) / sequences_; }
  std::int64_t tokens() const { return all_tokens_; }
  std::vector<std::int32_t> next_ids() const;  // tokens of the next batch
  // The next batch; the step rises from 0. `also`, unless nullptr, sees the routing and the logits too. Throws as
  // CheckpointModel::forward.
  TelemetryFrame step(PassWatch* also = nullptr);
  // Puts the specialisation counted since the last frame that shows it into `frame`, which is to be the last one: the
  // run is stopped before its end.
  void show_specialisation(TelemetryFrame& frame);

  const std::vector<TextLoss>& losses() const { return losses_; }  // by domain, as info().domains
  TextLoss loss() const;
  // Slots of each expert in all batches so far, by MoE layer: [E].
  const std::vector<std::vector<std::uint64_t>>& load() const { return load_; }

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
  std::int64_t all_tokens_ = 0, next_ = 0, seen_ = 0;
  double wall_s_ = 0;
  std::vector<TextLoss> losses_;
  std::vector<std::vector<std::uint64_t>> load_;
  std::vector<LoadWindow> windows_;
  std::vector<SpecialisationFrame> specialisation_;  // since the last frame that showed it
};

}  // namespace moescope

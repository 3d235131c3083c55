#include "core/checkpoints/checkpoint_run.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <numeric>
#include <optional>
#include <span>
#include <stdexcept>
#include <utility>

#include "core/files/text/words.h"
#include "core/frame/specialisation.h"
#include "core/model/moe/router_sums.h"
#include "core/numerics/kernels/row_math.h"
#include "core/numerics/processor.h"

namespace moescope {
namespace {

constexpr int kWindow = 50;  // steps of figures over a window

void require_memory(const CheckpointModel& model, std::span<const TextPiece> pieces, const TextBatches& batches) {
  Index tokens = 0, largest_batch = 0;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (i % size(to_int(batches.sequences)) == 0) tokens = 0;
    tokens += std::ssize(pieces[i].ids);
    largest_batch = std::max(largest_batch, tokens);
  }
  const double needed = model.working_bytes(largest_batch);
  if (needed <= batches.memory) return;
  throw std::runtime_error(fmt::format(
      "--batch {} x --length {}: a batch of {} tokens would need {:.3g} GiB of memory, and this machine has {:.3g} "
      "GiB: choose a smaller --batch or --length",
      batches.sequences, batches.texts.length, largest_batch, needed / (1 << 30), batches.memory / (1 << 30)));
}

// Returns the routing in the form from which training computes its figures. sum_router() does not change the values.
RouterActivations<float> as_activations(const RoutedTokens& tokens) {
  RouterActivations<float> router{};
  const auto rows = [&](const std::vector<float>& values, int cols) {
    return Matrix<float>(const_cast<float*>(values.data()), values.size() / cols, cols);
  };
  router.logits = rows(tokens.logits, tokens.experts);
  router.scores = rows(tokens.scores, tokens.experts);
  router.mix = rows(tokens.mix, tokens.top_k);
  router.margin = {const_cast<float*>(tokens.margin.data()), tokens.margin.size()};
  router.ids = tokens.ids;
  return router;
}

}  // namespace

// Fills a frame during a pass.
class CheckpointRun::Watch : public PassWatch {
 public:
  Watch(CheckpointRun& run, Batch batch, std::span<const std::int32_t> ids, TelemetryFrame& frame, PassWatch* also)
      : run_(run), batch_(batch), ids_(ids), frame_(frame), also_(also) {
    for (const TextPiece& piece : batch) last_.push_back((last_.empty() ? -1 : last_.back()) + std::ssize(piece.ids));
    if (!run.tokenizer_) return;
    passage_.emplace(run.tokenizer_, batch.front().ids, TextKind::batch);
    passage_->set_domain(run.texts_[batch.front().text].name);
  }

  void routed(int layer, const RoutedTokens& tokens) override {
    if (also_) also_->routed(layer, tokens);
    const std::size_t moe = frame_.routers.size();
    if (passage_)
      passage_->add_layer(layer, tokens, run_.model_.layers()[size(layer)].moe.choice_bias,
                          run_.model_.config().router.choose_by_logit);
    frame_.routers.push_back(run_.router_frame(moe, tokens));
    run_.count_specialisation(moe, batch_, tokens);
  }

  void logits(Index first, ConstMatrix<float> logits) override {
    if (also_) also_->logits(first, logits);
    std::vector<float> p(logits.cols);
    for (Index r = 0; r < logits.rows; ++r) {
      const Index t = first + r;
      const std::size_t piece = std::ranges::lower_bound(last_, t) - last_.begin();
      if (t == last_[piece]) continue;  // the next token belongs to another piece
      const float lse = softmax_row(logits.row(r), p.size(), 1.0f, p.data());
      const double loss = lse - static_cast<double>(logits.at(r, ids_[static_cast<std::size_t>(t) + 1]));
      TextLoss& domain = run_.losses_[size(run_.domain_of_text_[batch_[piece].text])];
      domain.sum += loss;
      ++domain.tokens;
      loss_.sum += loss;
      ++loss_.tokens;
      if (passage_ && piece == 0) passage_->set_loss(static_cast<std::size_t>(t) + 1, static_cast<float>(loss));
    }
  }
  const TextLoss& loss() const { return loss_; }
  void finish() {
    if (passage_ && passage_->tokens() > 0) frame_.texts.push_back(passage_->take());
  }

 private:
  CheckpointRun& run_;
  Batch batch_;
  std::span<const std::int32_t> ids_;
  TelemetryFrame& frame_;
  PassWatch* also_;
  std::optional<RoutedPassage> passage_;  // from the first piece
  std::vector<Index> last_;               // last token of each piece, counted from the start of the batch
  TextLoss loss_;
};

CheckpointRun::CheckpointRun(const CheckpointModel& model, const std::vector<LabelledText>& texts,
                             const TextBatches& batches)
    : model_(model),
      texts_(texts),
      sources_(batches.texts),
      tokenizer_(batches.tokenizer),
      pieces_(pieces_of(texts, {batches.texts.length, std::numeric_limits<int>::max()})),
      sequences_(batches.sequences) {
  require_memory(model, pieces_, batches);
  const CheckpointConfig& config = model.config();
  info_.run = batches.run;
  info_.name = batches.run_name;
  info_.source = absolute_path(batches.source);
  info_.n_layers = to_int(config.layers.size());
  info_.moe_layers = model.moe_layers();
  info_.n_experts = config.experts;
  info_.top_k = config.router.config.top_k;
  info_.dim = config.dim;
  info_.window = kWindow;
  info_.kernels = kernels_here().text();
  for (const LabelledText& text : texts_) {
    const auto known = std::ranges::find(info_.domains, text.name);
    domain_of_text_.push_back(to_int(known - info_.domains.begin()));
    if (known == info_.domains.end()) info_.domains.push_back(text.name);
  }
  for (const TextPiece& piece : pieces_) all_tokens_ += std::ssize(piece.ids);
  info_.tokens_per_step = std::ssize(next_ids());
  losses_.resize(info_.domains.size());
  load_.assign(info_.moe_layers.size(), std::vector<std::uint64_t>(size(config.experts)));
  specialisation_.resize(info_.moe_layers.size());
  windows_.assign(info_.moe_layers.size(), LoadWindow(config.experts, kWindow));
}

// The batches are divided into equal shares; the last batch of each share shows the specialisation.
bool CheckpointRun::shows_specialisation(std::int64_t step) const {
  constexpr std::int64_t kSteps = 100;
  const std::int64_t shares = std::max<std::int64_t>(1, steps() / kSteps);
  return (step + 1) * shares / steps() > step * shares / steps();
}

std::string CheckpointRun::settings() const {
  const bool softmax = model_.config().router.config.score_func == ScoreFunc::softmax;
  return settings_json(sources_, softmax ? "softmax" : "sigmoid");
}

CheckpointRun::Batch CheckpointRun::next_batch() const {
  const std::size_t first = next_ * sequences_;
  return Batch(pieces_).subspan(first, std::min(static_cast<std::size_t>(sequences_), pieces_.size() - first));
}

std::vector<std::int32_t> CheckpointRun::next_ids() const {
  std::vector<std::int32_t> ids;
  for (const TextPiece& piece : next_batch()) ids.insert(ids.end(), piece.ids.begin(), piece.ids.end());
  return ids;
}

RouterFrame CheckpointRun::router_frame(std::size_t moe, const RoutedTokens& tokens) {
  RouterFrame frame = sum_router(model_.config().router.config, as_activations(tokens));
  frame.layer = info_.moe_layers[moe];
  frame.tokens_per_expert.resize(size(tokens.experts));
  for (const std::int32_t e : tokens.ids) {
    ++frame.tokens_per_expert[size(e)];
    ++load_[moe][size(e)];
  }
  windows_[moe].push(frame.tokens_per_expert);
  frame.expert_bias = model_.layers()[size(frame.layer)].moe.choice_bias;
  fill_derived_figures(frame, windows_[moe]);
  return frame;
}

void CheckpointRun::count_specialisation(std::size_t moe, Batch batch, const RoutedTokens& tokens) {
  const std::size_t experts = size(tokens.experts), top_k = size(tokens.top_k);
  SpecialisationFrame& frame = specialisation_[moe];
  frame.layer = info_.moe_layers[moe];
  frame.experts = tokens.experts;
  frame.domain_DE.resize(info_.domains.size() * experts);
  const bool counts_pairs = fits_coactivation(info_.moe_layers.size(), experts);
  if (counts_pairs) frame.together_EE.resize(experts * experts);
  const std::int32_t* ids = tokens.ids.data();
  for (const TextPiece& piece : batch) {
    std::uint32_t* domain_counts = frame.domain_DE.data() + size(domain_of_text_[piece.text]) * experts;
    for (std::size_t t = 0; t < piece.ids.size(); ++t, ids += top_k)
      for (std::size_t i = 0; i < top_k; ++i) {
        ++domain_counts[size(ids[i])];
        for (std::size_t j = 0; counts_pairs && j < top_k; ++j)
          ++frame.together_EE[size(ids[i]) * experts + size(ids[j])];
      }
  }
}

TelemetryFrame CheckpointRun::step(PassWatch* also) {
  const Batch batch = next_batch();
  const std::vector<std::int32_t> ids = next_ids();
  std::vector<Index> lengths;
  for (const TextPiece& piece : batch) lengths.push_back(std::ssize(piece.ids));
  TelemetryFrame frame;
  frame.run = info_.run;
  Watch watch(*this, batch, ids, frame, also);
  const auto start = std::chrono::steady_clock::now();
  model_.forward(ids, lengths, watch);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  watch.finish();
  wall_s_ += seconds;
  routed_tokens_ += std::ssize(ids);
  if (shows_specialisation(next_)) show_specialisation(frame);
  frame.step = next_++;
  frame.wall_s = wall_s_;
  frame.tokens = routed_tokens_;
  frame.ce_loss = static_cast<float>(watch.loss().mean());
  frame.tokens_per_s = static_cast<float>(ids.size() / seconds);
  return frame;
}

void CheckpointRun::show_specialisation(TelemetryFrame& frame) {
  if (!frame.specialisation.empty()) return;
  frame.specialisation = std::exchange(specialisation_, std::vector<SpecialisationFrame>(info_.moe_layers.size()));
}

std::vector<double> CheckpointRun::fair_shares(std::size_t moe) const {
  const std::vector<std::uint64_t>& load = load_[moe];
  const double slots = std::accumulate(load.begin(), load.end(), 0.0);
  std::vector<double> shares;
  for (const std::uint64_t n : load) shares.push_back(static_cast<double>(n) * info_.n_experts / slots);
  return shares;
}

TextLoss CheckpointRun::loss() const {
  TextLoss all;
  for (const TextLoss& domain : losses_) {
    all.sum += domain.sum;
    all.tokens += domain.tokens;
  }
  return all;
}

}  // namespace moescope

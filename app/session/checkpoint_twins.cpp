#include "app/session/checkpoint_twins.h"

#include <algorithm>
#include <exception>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <utility>

namespace moescope {

namespace {

// Each text once, and of few texts several pieces.
constexpr int kLeastPieces = 8, kMostPieces = 16;

TextSources sourcesOf(const History& run) {
  auto sources = text_sources_in(run.settings_at_start()->log());
  if (!sources) throw std::runtime_error("the recording has no paths of its texts");
  return std::move(*sources);
}

}  // namespace

CheckpointTwins::CheckpointTwins(const History& run, Recipe recipe)
    : folder_(run.info().source),
      sources_(sourcesOf(run)),
      recipe_(recipe),
      thread_([this](const std::stop_token& stop) { work(stop); }) {}

CheckpointTwins::~CheckpointTwins() = default;

void CheckpointTwins::work(const std::stop_token& stop) {
  try {
    const std::filesystem::path tokens = std::filesystem::path(folder_) / "tokenizer.json";
    std::optional<Tokenizer> tokenizer;
    if (std::filesystem::exists(tokens)) tokenizer.emplace(tokens.string());
    CheckpointModel model(folder_);
    const std::vector<LabelledText> texts = read_all(sources_, tokenizer ? &*tokenizer : nullptr);
    const int pieces = std::clamp(static_cast<int>(texts.size()), kLeastPieces, kMostPieces);
    scan_ =
        compare_precision(model, texts, {.length = sources_.length, .pieces = pieces}, recipe_, [&](int done, int of) {
          done_ = done, of_ = of;
          return !stop.stop_requested();
        });
    if (scan_.twins.empty()) error_ = "cancelled";
  } catch (const std::exception& error) {
    error_ = error.what();
  }
  over_ = true;
}

}  // namespace moescope
